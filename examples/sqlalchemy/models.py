"""The models of an ordinary application, and its tables: python3 models.py makes them. libpq's environment says where the database is."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, String, create_engine
from sqlalchemy.orm import declarative_base, relationship

Base = declarative_base()


class User(Base):
    __tablename__ = "users"
    id = Column(BigInteger, primary_key=True)
    username = Column(String(255), nullable=False, unique=True)
    emails = relationship("Email", back_populates="user")


class Email(Base):
    __tablename__ = "emails"
    id = Column(BigInteger, primary_key=True)
    user_id = Column(ForeignKey("users.id", ondelete="CASCADE"), nullable=False)
    email = Column(String(255), nullable=False, unique=True)
    confirmed = Column(Boolean, nullable=False, default=False)
    user = relationship("User", back_populates="emails")


class Route(Base):
    __tablename__ = "routes"
    id = Column(BigInteger, primary_key=True)
    namespace_id = Column(BigInteger, nullable=False)
    path = Column(String(255), nullable=False, unique=True)


if __name__ == "__main__":
    Base.metadata.create_all(create_engine("postgresql+psycopg2://", future=True))
