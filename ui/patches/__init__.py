"""What the dashboard does to Streamlit 1.67 that Streamlit offers no way for: see docs/decisions/patches.md."""
