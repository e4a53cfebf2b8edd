"""Reading and writing at computed positions; search and sets."""
