"""A project of Django in a folder of its own, with the migration of samples/: forward, a duplicate, and back.

    python3 django_project.py FOLDER MIGRATION
"""
import os
import shutil
import sys

folder, migration = sys.argv[1:]
os.makedirs(f"{folder}/shop/migrations")
for package in ("shop", "shop/migrations"):
    open(f"{folder}/{package}/__init__.py", "w").close()
with open(f"{folder}/shop/models.py", "w") as file:
    file.write("""
from django.db import models

class Coupon(models.Model):
    code = models.TextField()
""")
sys.path.insert(0, folder)

import django
from django.conf import settings
from django.core.management import call_command
from django.db import IntegrityError

settings.configure(
    INSTALLED_APPS=["shop"], USE_TZ=True, DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"],
                           "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"], "USER": os.environ["PGUSER"]}})
django.setup()
call_command("makemigrations", "shop", verbosity=0)
shutil.copy(migration, f"{folder}/shop/migrations")
call_command("migrate", verbosity=0)

from shop.models import Coupon

Coupon.objects.create(code="SPRING")
try:
    Coupon.objects.create(code="SPRING")
    print("a duplicate was taken")
except IntegrityError as error:
    print("refused:", error)
call_command("migrate", "shop", "0001", verbosity=0)
Coupon.objects.create(code="SPRING")
print("coupons:", Coupon.objects.count())
