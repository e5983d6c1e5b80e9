"""Signing in and out. Counting and locking out is the lock-out backend's; the answer never tells a name from a word."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _

from fleet.services.trail import actor_of, trail_add

_PASSWORD_MAX = 4096  # characters


class SignInForm(AuthenticationForm):
    """Name and password; a wrong name and a wrong password get the same sentence."""

    error_messages = {
        "invalid_login": _(
            "Name or password is wrong. After five failures the name waits 15 minutes."
        ),
        "inactive": _("Name or password is wrong. After five failures the name waits 15 minutes."),
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, hint in (("username", "username"), ("password", "current-password")):
            self.fields[name].widget.attrs.update({"class": "inp", "autocomplete": hint})
        self.fields["username"].label = _("Name")
        self.fields["password"].label = _("Password")
        self.fields["username"].widget.attrs["autofocus"] = True

    def clean_username(self) -> str:
        """Refuse what can be nobody's name before the lock-out tries to store it."""
        name = self.cleaned_data["username"]
        if len(name) > self.username_field.max_length:
            raise self.get_invalid_login_error()
        return name

    def clean_password(self) -> str:
        """Refuse a password that would only keep the hasher busy."""
        password = self.cleaned_data["password"]
        if len(password) > _PASSWORD_MAX:
            raise self.get_invalid_login_error()
        return password


class SignIn(LoginView):
    """The sign-in page; it returns to where the session ended."""

    template_name = "registration/login.html"
    authentication_form: type[forms.Form] = SignInForm
    redirect_authenticated_user = True

    def form_valid(self, form: Any) -> HttpResponse:
        with transaction.atomic():
            answer = super().form_valid(form)
            trail_add(
                actor=actor_of(self.request),
                verb="session.begin",
                object_kind="person",
                object_id=self.request.user.get_username(),
            )
        return answer

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(**kwargs)
        wanted = self.get_redirect_url()
        return {
            **context,
            "returns_to": wanted if wanted != "/" else "",
            "site": settings.SITE_NAME,
        }


sign_in = SignIn.as_view()
sign_out = LogoutView.as_view(next_page="login", http_method_names=["post", "options"])
