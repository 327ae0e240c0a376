"""Errors of ``/api``: what ours become, in the shape that all of the server's errors have."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from fastapi import Request, Response
from fastapi.routing import APIRoute

from moestream.errors import MoestreamError
from moestream.server.api.catalog import UnlistedModelError
from moestream.server.api.pulling import PullLimitError
from moestream.server.errors import ApiError, error_of, error_response
from moestream.server.store import NotKeptError, StoreBusyError, StoreError, StoreFullError
from moestream.settings.values import SettingError

__all__ = ["ApiRoute", "error_event", "told"]

_INVALID: Final = "invalid_request_error"
_SERVER: Final = "server_error"
_RETRY: Final = {"Retry-After": "2"}

#: The first that fits decides: status, type, code, headers. Other errors are the server's.
_TABLE: Final[tuple[tuple[type[MoestreamError], int, str, str, dict[str, str]], ...]] = (
    (SettingError, 400, _INVALID, "invalid_setting", {}),
    (PullLimitError, 429, "rate_limit_error", "too_many_pulls", _RETRY),
    (UnlistedModelError, 404, _INVALID, "model_not_found", {}),
    (NotKeptError, 404, _INVALID, "not_found", {}),
    (StoreFullError, 507, _SERVER, "disk_full", {}),
    (StoreBusyError, 503, _SERVER, "store_busy", _RETRY),
    (StoreError, 503, _SERVER, "store_unavailable", {}),
)


class ApiRoute(APIRoute):
    """A route that answers every expected error in words."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with errors turned into responses."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except MoestreamError as error:
                return error_response(told(error))

        return answer


def told(error: MoestreamError) -> ApiError:
    """How an error is told to the app."""
    for kind, status, type_, code, headers in _TABLE:
        if isinstance(error, kind):
            return ApiError(
                str(error),
                status=status,
                type_=type_,
                code=code,
                param=getattr(error, "key", None),
                headers=headers,
            )
    return error_of(error)


def error_event(error: MoestreamError) -> dict[str, Any]:
    """What an ``error`` event carries: the same as a response."""
    as_told = told(error)
    return {
        "message": str(as_told),
        "type": as_told.type,
        "code": as_told.code,
        "param": as_told.param,
    }
