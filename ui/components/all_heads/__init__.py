"""Every head of a kind as thumbnails, on one canvas."""
