"""The project's own folders: reading, writing, checking and converting them."""
