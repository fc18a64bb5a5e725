"""Django's ORM over psycopg 3: migrations of a model and of Django's own applications, queries, inspectdb."""

import datetime as dt
import io
import os
import zoneinfo

import django
from django.apps import AppConfig
from django.conf import settings

from checks import check, expect, run, statement

settings.configure(
    SECRET_KEY="only for checks",
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": os.environ.get("PGDATABASE", "test"),
            "USER": os.environ.get("PGUSER", "atoll"),
            "HOST": os.environ.get("PGHOST", ""),
            "PORT": os.environ.get("PGPORT", ""),
        }
    },
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
)
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, connection, models, transaction  # noqa: E402
from django.db.models import functions  # noqa: E402
from django.utils import timezone  # noqa: E402


def noted(execute, text, params, many, context):
    statement(text)
    return execute(text, params, many, context)


connection.execute_wrappers.append(noted)


class Shelf(models.Model):
    name = models.CharField(max_length=30, unique=True)

    class Meta:
        app_label = "checks"
        db_table = "dj_shelf"


class Item(models.Model):
    shelf = models.ForeignKey(Shelf, on_delete=models.CASCADE)
    title = models.TextField()
    price = models.DecimalField(max_digits=10, decimal_places=2, default=0)
    added = models.DateTimeField(auto_now_add=True)
    data = models.JSONField(null=True)

    class Meta:
        app_label = "checks"
        db_table = "dj_item"


def made():
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS dj_item, dj_shelf")
    with connection.schema_editor() as editor:
        editor.create_model(Shelf)
        editor.create_model(Item)


@check
def models_and_queries():
    made()
    shelf = Shelf.objects.create(name="one")
    Item.objects.bulk_create(Item(shelf=shelf, title=f"t{i}", price=i, data={"i": i}) for i in range(10))
    expect(Item.objects.filter(price__gte=5).count(), 5)
    expect(Item.objects.filter(shelf__name="one").order_by("-price")[0].title, "t9")
    expect(Item.objects.select_related("shelf").get(title="t3").shelf.name, "one")
    expect(Item.objects.aggregate(models.Sum("price"))["price__sum"], 45)
    expect(list(Item.objects.values_list("title", flat=True).filter(title__in=["t1", "t2"]).order_by("id")), ["t1", "t2"])
    Item.objects.filter(title="t1").update(price=models.F("price") + 100)
    expect(Item.objects.get(title="t1").price, 101)
    expect(Item.objects.get(title="t2").data, {"i": 2})
    Item.objects.filter(shelf=shelf).delete()
    shelf.delete()
    expect((Item.objects.count(), Shelf.objects.count()), (0, 0))


@check
def transactions():
    made()
    with transaction.atomic():
        Shelf.objects.create(name="one")
        try:
            with transaction.atomic():
                Shelf.objects.create(name="one")
        except IntegrityError:
            pass
        Shelf.objects.select_for_update().get(name="one")
    expect(Shelf.objects.count(), 1)
    expect(Shelf.objects.get_or_create(name="two")[1], True)
    expect(Shelf.objects.update_or_create(name="two")[1], False)


@check
def changes_of_a_table():
    made()
    with connection.schema_editor() as editor:
        field = models.IntegerField(default=7)
        field.set_attributes_from_name("weight")
        editor.add_field(Shelf, field)
        editor.remove_field(Shelf, field)


@check
def days_in_a_time_zone():
    made()
    shelf = Shelf.objects.create(name="one")
    item = Item.objects.create(shelf=shelf, title="late")
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    late = dt.datetime(2024, 6, 30, 22, 30, tzinfo=dt.timezone.utc)
    Item.objects.filter(pk=item.pk).update(added=late)
    day = functions.TruncDate("added", tzinfo=berlin)
    expect(Item.objects.annotate(day=day).get().day, dt.date(2024, 7, 1))
    month = functions.TruncMonth("added", tzinfo=berlin)
    expect(Item.objects.annotate(month=month).get().month.isoformat(), "2024-07-01T00:00:00+02:00")
    with timezone.override(berlin):
        expect(Item.objects.filter(added__date=dt.date(2024, 7, 1), added__hour=0).count(), 1)


@check
def migrations_of_django():
    call_command("migrate", verbosity=0)
    User.objects.filter(username="ada").delete()
    User.objects.create_user("ada", password="x")
    expect(User.objects.get(username="ada").check_password("x"), True)


@check
def reflection():
    made()
    out = io.StringIO()
    call_command("inspectdb", "dj_item", stdout=out)
    expect("shelf = models.ForeignKey" in out.getvalue(), True)


run()
