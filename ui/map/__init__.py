"""The page Map: the whole model at work on one sentence, part by part."""
