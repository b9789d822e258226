"""The JSON document as a schema: every key always present, unknown is null."""

_NUMBER = {"type": ["number", "null"]}
_PAIR = {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}]}
_TEXT = {"type": "string"}


def _closed(properties):
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


ROW = _closed(
    {
        "setting": {"type": "object", "minProperties": 1},
        "index": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1},
        "quantity": _TEXT,
        "statistic": {"enum": ["mean", "median"]},
        "measured": _NUMBER,
        "stderr": _NUMBER,
        "interval": _PAIR,
        "draws": {"type": "integer", "minimum": 0},
        "predicted": _NUMBER,
        "predicted_given_draw": _NUMBER,
        "band": _PAIR,
        "kind": {"enum": ["exact", "limit", "approximation", "bound", "power law", None]},
        "standing": {"enum": ["theorem", "derived", "fitted", "simulated", None]},
        "source": _TEXT,
        "validity": _TEXT,
        "verdict": {"enum": ["supported", "contradicted", "undecided", "no prediction", "out of range"]},
        "detail": _TEXT,
    }
)
CLAIM = _closed(
    {
        "claim": _TEXT,
        "along": _TEXT,
        "predicted": _NUMBER,
        "measured": _NUMBER,
        "interval": _PAIR,
        "expected": {"enum": ["supported", "contradicted", None]},
        "verdict": _TEXT,
        "source": _TEXT,
        "detail": _TEXT,
    }
)
SCHEMA = _closed(
    {
        "experiment": _TEXT,
        "version": {"type": "integer"},
        "seed": {"type": "integer"},
        "device": {"enum": ["cpu", "gpu"]},
        "provenance": {"type": "object"},
        "rows": {"type": "array", "items": ROW},
        "claims": {"type": "array", "items": CLAIM},
    }
)
