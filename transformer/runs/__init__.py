"""One entry point for each kind of model: input -> what the model did, with its attention."""
