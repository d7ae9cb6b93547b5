import os


def database(host, port, name=os.environ.get("PGDATABASE", "postgres")):
    # The tests use the database itself and not one of their own: automatic mode is on there.
    return {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": host,
        "PORT": port,
        "NAME": name,
        "USER": os.environ.get("PGUSER", ""),
        "TEST": {"NAME": name},
    }


DATABASES = {"default": database(os.environ["PGHOST"], os.environ["PGPORT"])}
# For the tests: the database of the application's installation in another cell.
if "OTHER_PGHOST" in os.environ:
    DATABASES["elsewhere"] = database(os.environ["OTHER_PGHOST"], os.environ["OTHER_PGPORT"])
# And a single database, which calls no service.
if "ALONE_PGDATABASE" in os.environ:
    DATABASES["alone"] = database(os.environ["PGHOST"], os.environ["PGPORT"], os.environ["ALONE_PGDATABASE"])

SECRET_KEY = "an example has no secrets"
ALLOWED_HOSTS = ["testserver"]
INSTALLED_APPS = ["names"]
MIDDLEWARE = ["names.middleware.ActingContext", "names.middleware.BusyNames"]
ROOT_URLCONF = "names.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
