"""The layouts as their authors name them, written anew and plainly: softmax by hand, weights kept in a list."""
