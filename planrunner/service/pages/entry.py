"""The way in: the projects, signing in and signing out."""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from planrunner.service.access import SESSION, Access
from planrunner.service.context import HereForm, HereVisitor, SeenProjects, frame
from planrunner.views.page.render import Frame, rendered

router = APIRouter(include_in_schema=False)


@router.get("/", response_class=HTMLResponse)
def projects(seen: SeenProjects, visitor: HereVisitor) -> Response:
    """The projects; where there is one only, its runs."""
    if len(seen) == 1:
        return RedirectResponse(f"/{seen[0].name}/runs", 303)
    return HTMLResponse(rendered("projects.html", frame(None, visitor, ""), projects=seen))


@router.get("/sign-in", response_class=HTMLResponse)
def sign_in_page(to: str = "/") -> HTMLResponse:
    """Where a person types a token."""
    return HTMLResponse(rendered("sign-in.html", Frame(), to=_inside(to), problem=""))


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Begin a session with the token of the form."""
    fields = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=5)
    to = _inside(fields.get("to", ["/"])[0])
    access: Access = request.app.state.access
    value = access.sign_in(fields.get("token", [""])[0])
    if value is None:
        page = rendered("sign-in.html", Frame(), to=to, problem="This token is not valid; it may have expired.")
        return HTMLResponse(page, 403)
    answer = RedirectResponse(to, 303)
    secure = request.url.scheme == "https"
    answer.set_cookie(access.cookie, value, int(SESSION), secure=secure, httponly=True, samesite="strict")
    return answer


@router.post("/sign-out")
def sign_out(request: Request, form: HereForm) -> Response:
    """End the session."""
    access: Access = request.app.state.access
    access.sign_out(request.headers.get("cookie", ""))
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(access.cookie, httponly=True, samesite="strict")
    return answer


def _inside(to: str) -> str:
    """An address of this service, never one elsewhere."""
    fine = to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable()
    return to if fine else "/"
