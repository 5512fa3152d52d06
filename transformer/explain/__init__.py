"""Explanations of a run: attribution, the flow of one text through a model, diagrams of models."""
