"""searches"""
