"""Errors as responses, in the shape that clients of OpenAI's API know."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from moestream.errors import (
    ConfigError,
    ContextOverflowError,
    ModelError,
    MoestreamError,
    UnsupportedModelError,
)
from moestream.server.worker import EngineBusyError, EngineCrashedError, EngineError

__all__ = ["ApiError", "add_handlers", "error_body", "error_of", "error_response"]

INVALID: Final = "invalid_request_error"
SERVER: Final = "server_error"


class ApiError(MoestreamError):
    """A request that is refused."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        type_: str = INVALID,
        code: str = "invalid_value",
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Say why, and which parameter it is about."""
        super().__init__(message)
        self.status = status
        self.type = type_
        self.code = code
        self.param = param
        self.headers = dict(headers or {})


#: The first that fits decides: status, type, code.
_TABLE: Final[tuple[tuple[type[MoestreamError], int, str, str], ...]] = (
    (EngineBusyError, 429, "rate_limit_error", "engine_busy"),
    (EngineCrashedError, 503, SERVER, "engine_crashed"),
    (EngineError, 503, SERVER, "engine_unavailable"),
    (ContextOverflowError, 400, INVALID, "context_length_exceeded"),
    (ConfigError, 400, INVALID, "invalid_value"),
    (UnsupportedModelError, 400, INVALID, "unsupported_by_model"),
    (ModelError, 400, INVALID, "refused_by_model"),
    (MoestreamError, 500, SERVER, "engine_error"),
)

_CODES: Final = {
    400: "invalid_request",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "request_too_large",
    415: "unsupported_media_type",
}


def error_of(error: MoestreamError) -> ApiError:
    """How an error is told to the client."""
    if isinstance(error, ApiError):
        return error
    status, type_, code = next(row[1:] for row in _TABLE if isinstance(error, row[0]))
    retry = getattr(error, "retry_after", None)
    headers = {} if retry is None else {"Retry-After": str(math.ceil(retry))}
    return ApiError(str(error), status=status, type_=type_, code=code, headers=headers)


def error_body(error: MoestreamError) -> dict[str, Any]:
    """The object that a response or an event carries."""
    told = error_of(error)
    return {
        "error": {
            "message": _clean(str(told)),
            "type": told.type,
            "param": None if told.param is None else _clean(told.param),
            "code": told.code,
        }
    }


def error_response(error: MoestreamError) -> Response:
    """The response for an error of ours."""
    told = error_of(error)
    return JSONResponse(error_body(told), told.status, told.headers)


def add_handlers(app: FastAPI) -> None:
    """Let every error of the application be told in this shape."""
    app.add_exception_handler(MoestreamError, _told)
    app.add_exception_handler(RequestValidationError, _refused)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


#: Where several types are possible, pydantic's path says which one it was about.
_TYPE_NAME: Final = re.compile(r"str|int|float|bool|dict|list|constrained-\w+|[\w-]+\[.*\]")


def _clean(text: str) -> str:
    # What a client sent may hold halves of characters, which no response can.
    return text.encode("utf-8", "replace").decode("utf-8")


def _told(_request: Request, error: Exception) -> Response:
    assert isinstance(error, MoestreamError)
    return error_response(error)


def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = [str(part) for part in first["loc"][1:]]
    param = ".".join(part for part in where if not _TYPE_NAME.fullmatch(part)) or None
    if first["type"] == "json_invalid":
        return error_response(ApiError(f"the request is not JSON: {first['msg']}"))
    message = f"{param or 'the request'}: {first['msg']}"
    return error_response(ApiError(message, param=param))


def _http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = error.status_code
    return error_response(
        ApiError(
            str(error.detail),
            status=status,
            type_=INVALID if status < 500 else SERVER,
            code=_CODES.get(status, "error"),
            headers=error.headers,
        )
    )


def _unexpected(_request: Request, error: Exception) -> Response:
    # The ASGI server logs it, with its traceback.
    return error_response(
        ApiError(
            f"unexpected {type(error).__name__} in the server (this is a bug; its log has more)",
            status=500,
            type_=SERVER,
            code="unexpected",
        )
    )
