"""Shapes, views, joins and moves of elements."""
