"""A record as a file: one safetensors file, whose header holds a JSON table of sites, axes and interventions.

Reading treats the file as untrusted. Nothing here imports `record`, whose `save` and `open` use this.
"""
