from django.db import models


class Booking(models.Model):
    uuid = models.CharField(max_length=200, primary_key=True)
    order = models.CharField(max_length=50)
    amount = models.DecimalField(max_digits=10, decimal_places=2)


class Sale(models.Model):
    id = models.CharField(max_length=50, primary_key=True)
    amount = models.DecimalField(max_digits=10, decimal_places=2)
    sent = models.BooleanField(default=False)
