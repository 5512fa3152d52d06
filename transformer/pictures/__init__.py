"""Arrays with what their axes mean: what figures draw and files hold."""
