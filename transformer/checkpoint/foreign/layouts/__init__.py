"""The layouts that are recognised: published ways to name tensors, and how their tensors become ours."""
