"""What is said of a broker that is lost."""

from aiomqtt import MqttCodeError

from slotwise.live.mqtt import Broker
from slotwise.live.outages import Outage, Outages

BROKER = Broker("host", 1883)
LOST, AGAIN = "connection to the broker lost; trying again", "connected again"


def test_clients_that_lose_the_same_broker_say_so_once():
    said = []
    outages = Outages(said.append)
    one, two = (Outage(outages, name, BROKER) for name in ("one", "two"))
    one.ends()  # the first connection is none again
    for outage in (one, two, one):
        outage.begins(ConnectionRefusedError())
    one.ends()
    assert said == [LOST]
    two.ends()
    assert said == [LOST, AGAIN]


def test_why_the_broker_lets_nobody_in_is_told_once():
    said = []
    outage = Outage(Outages(said.append), "one", BROKER)
    for _ in range(2):
        outage.begins(None)
        for _ in range(2):
            outage.begins(MqttCodeError(Code(5)))
        outage.ends()
    assert said == [LOST, "the broker lets nobody in like this: Not authorized; trying again", AGAIN] * 2


class Code:
    """A reason as the MQTT library has it."""

    def __init__(self, value):
        self.value = value

    def __str__(self):
        return "Not authorized"
