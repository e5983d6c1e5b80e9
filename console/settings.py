"""The one settings file. Every value comes from the environment (console/env.py) and says what
happens without it.
"""

import secrets
import sys

from console import env
from console.embedded.places import secret_file

BASE_DIR = env.BASE_DIR
STATE_DIR = env.state_dir()

# Without SECRET_KEY a fresh one is written to STATE_DIR once; several hosts must share one by the
# variable.
SECRET_KEY = env.text("SECRET_KEY") or (
    # A command in a fresh clone keeps nothing, so it needs no folder and a key of its own will do.
    secret_file(STATE_DIR / "secret-key") if STATE_DIR.is_dir() else secrets.token_urlsafe(48)
)
DEBUG = env.flag("DEBUG")

# HOST and PORT of the web server; ALLOWED_HOSTS adds the names under which browsers reach it.
HOST = env.text("HOST", "127.0.0.1")
PORT = env.integer("PORT", 8000, low=1, high=65535)
IS_LOOPBACK = HOST.startswith("127.") or HOST in {"localhost", "::1"}
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]", HOST, *env.words("ALLOWED_HOSTS")]
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS")
# BEHIND_TLS=1 when a proxy ends TLS: Secure cookies, HSTS, redirect. Off, cookies work on plain
# loopback.
BEHIND_TLS = env.flag("BEHIND_TLS", default=not IS_LOOPBACK)

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "channels",
    "django_rq",
    "django_htmx",
    "csp",
    "axes",
    "console",
    "fleet.execution",
    "fleet",
    "releases",
    "runbooks",
]

MIDDLEWARE = [
    "console.streaming.StreamingMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "console.middleware.RequestIdMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "console.middleware.BodySizeMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
    "console.middleware.PersonMiddleware",
    "console.middleware.PolicyMiddleware",
    "console.middleware.IdempotencyMiddleware",
]

ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
                "console.context.shell",
            ],
            "builtins": ["fleet.templatetags.flotilla"],
        },
    }
]

# Without DATABASE_URL `make up` starts its own Postgres; alone, a command says that none runs.
DATABASE_URL = env.text("DATABASE_URL", "postgresql://console@127.0.0.1:54329/console")
DATABASES = {"default": {**env.database(DATABASE_URL), "CONN_HEALTH_CHECKS": True}}
# Workers hold one connection each and must notice a dead server; the web keeps connections between
# requests.
DATABASES["default"]["CONN_MAX_AGE"] = 0 if "pytest" in sys.modules else 60
DATABASES["default"]["OPTIONS"] = {"connect_timeout": 5}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Redis carries hints, queues and hot log frames; it may lose everything at any moment.
REDIS_URL = env.cache("REDIS_URL", "redis://127.0.0.1:63799")
RQ_REDIS_URL, CHANNELS_REDIS_URL, CELERY_REDIS_URL, STREAMS_REDIS_URL = (
    f"{REDIS_URL}/{number}" for number in range(4)
)
RQ_QUEUES = {
    name: {
        "URL": RQ_REDIS_URL,
        "DEFAULT_TIMEOUT": 90,
        "SERIALIZER": "rq.serializers.JSONSerializer",
    }
    for name in ("stop", "start", "probe", "gate")
}
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        # redis-py 8 gives every socket a 5 s time-out, which would close idle sockets; None
        # switches it off.
        "CONFIG": {"hosts": [{"address": CHANNELS_REDIS_URL, "socket_timeout": None}]},
    }
}

# Every waiting time of the design is divided by TIME_SCALE (1 in life, 10 in tests).
TIME_SCALE = env.number("TIME_SCALE", 1.0, low=0.1, high=1000.0)

CELERY_BROKER_URL = CELERY_REDIS_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
# No soft limit: its exception lands between a statement and its answer and leaves the worker with a
# connection that no later tick can use. Ticks mind the clock; one that hangs is killed with its worker.
CELERY_TASK_TIME_LIMIT = 60
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 60}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULE = {
    name: {"task": task, "schedule": every_s / TIME_SCALE, "options": {"expires": 10}}
    for name, task, every_s in (
        ("sweep", "fleet.tasks.sweep", 5.0),
        ("fleet", "fleet.tasks.tick", 2.0),
        ("launches", "releases.tasks.tick", 2.0),
        ("runs", "runbooks.tasks.tick", 1.0),
        ("seal-trail", "fleet.tasks.seal_trail", 5.0),
    )
}

AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "console.auth.PersonBackend",
]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
# Five failures of one name from one address close it there for 15 minutes, twenty of one address close
# the address (console/lockout.py); tries while it is closed do not make it longer.
AXES_HANDLER = "console.lockout.SignInHandler"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = 0.25
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_VERBOSE = False
AXES_LOCKOUT_CALLABLE = "console.error_pages.locked_out"
CSRF_FAILURE_VIEW = "console.error_pages.forged"

SESSION_ENGINE = "django.contrib.sessions.backends.db"
SESSION_COOKIE_AGE = 8 * 3600
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS
SESSION_COOKIE_NAME = "__Host-session" if BEHIND_TLS else "flotilla-session"
CSRF_COOKIE_NAME = "__Host-csrf" if BEHIND_TLS else "flotilla-csrf"
SESSION_IDLE_S = 30 * 60

SECURE_SSL_REDIRECT = BEHIND_TLS
SECURE_HSTS_SECONDS = 31536000 if BEHIND_TLS else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_TLS else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# The longest form, and the longest output that the reader's page takes; both whole requests, without what frames them.
FORM_MAX_BYTES = 5 << 19  # 2.5 MiB, as Django has it
READING_MAX_BYTES = 16 << 20
# Django's own limit is one for all addresses; BodySizeMiddleware keeps the lower one.
DATA_UPLOAD_MAX_MEMORY_SIZE = READING_MAX_BYTES + (64 << 10)
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "img-src": ["'self'"],
        "style-src": ["'self'"],
        "script-src": ["'self'"],
        "connect-src": ["'self'"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}

# The key that seals the trail. Without SEAL_KEY one is made once in STATE_DIR; several hosts must share one.
SEAL_KEY = env.text("SEAL_KEY")
# Where the head of the trail is noted each hour, better on another disk. Without it: a file in STATE_DIR.
TRAIL_ANCHOR_FILE = env.text("TRAIL_ANCHOR_FILE")

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"
# The zone that pages show beside UTC; people may choose their own.
SITE_ZONE = env.zone("SITE_ZONE", "Asia/Shanghai")
SITE_NAME = env.text("SITE_NAME", "h100-prod")

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = STATE_DIR / "static"
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

# Addresses that a node may have (CIDRs). On loopback the lab's block is allowed without being
# named.
NODE_CIDRS = env.networks("NODE_CIDRS", "127.0.0.0/8" if IS_LOOPBACK else "")
# Pools (slugs, or all) that take only nodes with a valid acceptance. Without it a passed probe is enough.
ACCEPTANCE_REQUIRED = env.words("ACCEPTANCE_REQUIRED")
# What the output of one subject may take of a node's disk, per start; older bytes are given back in whole.
SUBJECT_OUTPUT_CAP_BYTES = env.integer("SUBJECT_OUTPUT_CAP_MIB", 1024, low=1, high=1 << 20) << 20
# How long what probes printed is kept, as far as nothing points to it; the newest of each node stays.
PROBES_KEPT_DAYS = env.integer("PROBES_KEPT_DAYS", 14, low=1, high=3650)
# What masks secrets in the output of commands before it is stored.
EXECUTION_REDACT = "fleet.rules.redact.redact_text"
# The private key that opens the nodes; the lab brings its own.
SSH_KEY_FILE = env.key_file("SSH_KEY_FILE", str(STATE_DIR / "lab" / "ssh" / "id_ed25519"))
# LAB=1 while the rehearsal lab runs: seed accounts may sign in, pages are marked.
IS_REHEARSAL = env.flag("LAB")

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.level("LOG_LEVEL", "INFO")},
    "loggers": {"paramiko": {"level": "CRITICAL"}, "axes": {"level": "WARNING"}},
}
