"""The head atlas: what every head does over a whole corpus, in one pass that can be spread over machines."""
