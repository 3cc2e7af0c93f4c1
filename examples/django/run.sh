set -e
django-admin startproject mysite .
echo 'INSTALLED_APPS += ["shop"]' >> mysite/settings.py
echo 'DOUBTLESS_URL = "sqlite:///messages.sqlite3"' >> mysite/settings.py
python manage.py makemigrations -v 0 shop
python manage.py migrate -v 0
export DOUBTLESS_PROVIDER='sqlite:///messages.sqlite3'
export DOUBTLESS_HISTORY='sqlite:///messages.sqlite3'
echo '{"headers": {"uuid": "o-1"}, "body": {"id": "N-1", "amount": 7}}' > one
cat one one | doubtless send orders -
python manage.py consume --until-idle 1
python manage.py dumpdata shop.booking
