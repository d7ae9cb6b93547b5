from django.urls import path

from . import views

urlpatterns = [
    path("users", views.new_user),
    path("users/<int:pk>", views.user),
    path("emails/<int:pk>", views.email),
    path("routes/<int:pk>", views.route),
    path("health", views.health),
]
