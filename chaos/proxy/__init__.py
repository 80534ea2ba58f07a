"""A TCP proxy in front of one server that breaks connections, single requests and single replies on order."""

from tpc.chaos.proxy.addresses import proxied_mongo, proxied_postgres
from tpc.chaos.proxy.kafka_framing import KAFKA
from tpc.chaos.proxy.mongo_framing import MONGO
from tpc.chaos.proxy.postgres_framing import POSTGRES
from tpc.chaos.proxy.proxy import ConnectionFault, Proxy
from tpc.chaos.proxy.rules import Action, Fired, Request, Rule
from tpc.chaos.proxy.valve import Direction

__all__ = [
    "KAFKA",
    "MONGO",
    "POSTGRES",
    "Action",
    "ConnectionFault",
    "Direction",
    "Fired",
    "Proxy",
    "Request",
    "Rule",
    "proxied_mongo",
    "proxied_postgres",
]
