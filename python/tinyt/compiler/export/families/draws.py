"""draws"""
