"""What the authors run to make the shipped files, in a copy of the repository; no installed package holds it."""


class ToolError(Exception):
    """A tool cannot start or go on. The sentence names the argument, the value and the remedy."""
