"""convolutions"""
