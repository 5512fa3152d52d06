"""The models: assemblies of layers, each with a frozen config."""
