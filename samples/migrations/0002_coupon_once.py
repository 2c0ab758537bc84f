"""A migration for Django: coupon codes become unique across all databases and services that share the
DynamoDB table. A duplicate is an IntegrityError, as of a unique column.

The role that migrates owns the tables; superuser.sql says which rights it needs. Codes that were there
before have no keys, and going back leaves the keys of the codes until their retention is over.
"""
from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [("shop", "0001_initial")]

    operations = [
        migrations.RunSQL(
            sql="""
                CREATE TRIGGER coupon_once AFTER INSERT ON shop_coupon
                    FOR EACH ROW EXECUTE FUNCTION idem_guard('code', 'prefix=coupon/')
            """,
            reverse_sql="DROP TRIGGER coupon_once ON shop_coupon",
        ),
    ]
