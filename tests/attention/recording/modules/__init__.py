"""The modules, by what they are for; importing one enters its cases."""
