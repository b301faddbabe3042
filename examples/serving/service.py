"""A web service that labels sentences: MODEL=tagger uvicorn service:app

It needs the packages fastapi and uvicorn, and a model of words such as one of `latentstruct train chain`. Call it by
curl localhost:8000/labels -H 'content-type: application/json' -d '{"texts": ["Mara left Oslo."]}'
"""

import os

from fastapi import FastAPI
from pydantic import BaseModel, Field

from latentstruct import load
from latentstruct.io import tokenize

app = FastAPI(title="tagger")
tagger = load(os.environ.get("MODEL", "tagger"))


class Texts(BaseModel):
    """Texts to label, a sentence each."""

    texts: list[str] = Field(max_length=1000)


@app.post("/labels")
def label(request: Texts) -> list[list[dict[str, str | int | float]]]:
    """Return the tokens of each text with their labels and the probabilities of these."""
    tokens = [tokenize(text) for text in request.texts]
    words = [[token.text for token in some] for some in tokens]
    found = zip(tokens, tagger.predict(words), tagger.confidence(words), strict=True)
    return [
        [
            {**token._asdict(), "label": str(tag), "probability": round(float(value), 4)}
            for token, tag, value in zip(some, tags, values, strict=True)
        ]
        for some, tags, values in found
    ]
