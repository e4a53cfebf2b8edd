"""The task `chars`: the next character of any text."""
