"""The models that downhaul is tested with: built here, exported by export_models.py.

`builders()` maps a model's name to a function from Options to Case. Weights are random but fixed
by a seed, except bert_minilm, whose weights are real.
"""

from model_zoo import corners, text, vision


def builders():
    return {**text.BUILDERS, **vision.BUILDERS, **corners.BUILDERS}
