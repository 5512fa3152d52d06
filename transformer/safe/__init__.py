"""Reading untrusted files: sizes and structure first, and nothing in them is ever run."""
