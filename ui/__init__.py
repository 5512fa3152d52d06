"""The dashboard's shared Streamlit code: caches, controls, components. Pages are thin because this is not."""
