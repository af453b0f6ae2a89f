"""The Costs page inside the Airflow UI: in the navigation, behind Airflow's own login.

Whoever may see plugins (with the simple auth manager: the role Viewer or more) may see costs.
Airflow loads plugins in every process; the page and its imports wait for the first request.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX = "/costs"
# Behind a proxy Airflow may live below a path.
HREF = f"{urlsplit(conf.get('api', 'base_url', fallback='')).path.rstrip('/')}{PREFIX}/"


@cache
def costs_app() -> ASGIApp:
    """The app, with nobody let in whom Airflow does not know."""
    from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
    from airflow.api_fastapi.core_api.security import requires_access_view
    from fastapi import Depends

    from kubetally.report.page import create_app

    return create_app([Depends(requires_access_view(AccessView.PLUGINS))])


async def costs(scope: Scope, receive: Receive, send: Send) -> None:
    await costs_app()(scope, receive, send)


class KubetallyPlugin(AirflowPlugin):
    name = "kubetally"
    fastapi_apps: ClassVar[list[Any]] = [
        {"app": costs, "url_prefix": PREFIX, "name": "Kubetally costs"}
    ]
    external_views: ClassVar[list[Any]] = [
        {
            "name": "Costs",
            "href": HREF,
            "destination": "nav",
            "url_route": "costs",
            "icon": f"{HREF}static/icon.svg",
            "icon_dark_mode": f"{HREF}static/icon-dark.svg",
            "nav_top_level": True,
        }
    ]
