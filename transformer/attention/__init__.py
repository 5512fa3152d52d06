"""All that watches: capture, records, pictures and what is measured on them."""
