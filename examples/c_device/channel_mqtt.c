/*
 * The channel over MQTT, with libmosquitto (docs/protocol.md). Arguments: HOST PORT NAME NUMBER [CA CERTIFICATE KEY].
 */
#define _POSIX_C_SOURCE 200809L
#include <mosquitto.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "channel.h"

#define SEATS 100
#define FIRST_PAUSE 250       /* milliseconds between two attempts to connect; it grows, */
#define LONGEST_PAUSE 2000    /* up to this if nobody listens, */
#define LONGEST_REFUSED 30000 /* and up to this behind a proxy that accepts connections and closes them */

const bool channel_has_beacons = false; /* so nothing has to be done at a certain time */
int64_t channel_now(void)
{
    return 0;
}
void channel_wake_at(int64_t local)
{
    (void)local;
}

const char *const channel_usage = "HOST PORT NAME NUMBER [CA CERTIFICATE KEY]";

static struct {
    struct mosquitto *client;
    char **arguments;
    bool with_certificate, connected;
    uint64_t port, number;
    char root[TOPIC_ROOM];
    int code; /* of the last call of the library */
} mqtt;

bool channel_arguments(int count, char **arguments, char *name, uint64_t *number)
{
    if ((count != 5 && count != 8) || !number_in(arguments[2], &mqtt.port) || !mqtt.port || mqtt.port > 65535 ||
        !is_name(arguments[3]) || !number_in(arguments[4], number))
        return false;
    mqtt.arguments = arguments;
    mqtt.with_certificate = count == 8;
    strcpy(name, arguments[3]); /* is_name() has found it short enough */
    return true;
}

static void subscribe(const char *format, const char *seats)
{
    char topic[TOPIC_ROOM + 2 * SEATS];
    snprintf(topic, sizeof topic, format, mqtt.root, seats, (unsigned long long)mqtt.number);
    mosquitto_subscribe(mqtt.client, NULL, topic, 1);
}

static void on_connect(struct mosquitto *client, void *context, int code)
{
    char seats[2 * SEATS + 1] = "";
    (void)client, (void)context;
    if (code) {
        fprintf(stderr, "the broker rejects the login: %s\n", mosquitto_connack_string(code));
        return;
    }
    mqtt.connected = true;
    for (uint64_t seat = 0; seat < (mqtt.number - 1) % SEATS; seat++) strcat(seats, "+/");
    subscribe("%s/to/%s%llu/+", "");
    subscribe("%s/all/model/%s%llu/#", seats);
    subscribe("%s/all/%s", "end");
    subscribe("%s/all/%s", "call");
    device_connected();
}

static void on_message(struct mosquitto *client, void *context, const struct mosquitto_message *message)
{
    (void)client, (void)context;
    if (message->payloadlen > 0) device_receive(message->topic, message->payload, (size_t)message->payloadlen);
}

int channel_open(const char *name, uint64_t number, const char *topic, const unsigned char *will, size_t length)
{
    char client_id[TOPIC_ROOM];
    snprintf(mqtt.root, sizeof mqtt.root, "slotwise/%s", name);
    snprintf(client_id, sizeof client_id, "slotwise-%s-device-%llu", name, (unsigned long long)number);
    mqtt.number = number;
    mosquitto_lib_init();
    mqtt.client = mosquitto_new(client_id, true, NULL);
    if (!mqtt.client) return 1;
    mosquitto_will_set(mqtt.client, topic, (int)length, will, 1, false);
    char **given = mqtt.arguments;
    if (mqtt.with_certificate && mosquitto_tls_set(mqtt.client, given[5], NULL, given[6], given[7], NULL)) {
        fprintf(stderr, "cannot use these certificates\n");
        return 2;
    }
    mosquitto_int_option(mqtt.client, MOSQ_OPT_TCP_NODELAY, 1);
    mosquitto_connect_callback_set(mqtt.client, on_connect);
    mosquitto_message_callback_set(mqtt.client, on_message);
    mqtt.code = mosquitto_connect(mqtt.client, given[1], (int)mqtt.port, KEEPALIVE);
    return 0;
}

/* Wait before the next attempt to connect: longer from time to time, and not when all others do. */
static void back_off(void)
{
    static uint64_t pause, attempts;
    bool refused = mqtt.code == MOSQ_ERR_CONN_LOST || mqtt.code == MOSQ_ERR_CONN_REFUSED;
    uint64_t longest = refused ? LONGEST_REFUSED : LONGEST_PAUSE;
    struct timespec now;
    if (mqtt.connected || !pause) {
        fprintf(stderr, "no connection to the broker (%s); retrying\n", mosquitto_strerror(mqtt.code));
        pause = FIRST_PAUSE;
        mqtt.connected = false;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t random = mixed((uint64_t)now.tv_nsec + attempts++);
    uint64_t chosen = pause / 2 + random % (pause / 2 + 1);
    nanosleep(&(struct timespec){.tv_sec = (time_t)(chosen / 1000), .tv_nsec = (long)(chosen % 1000) * 1000000},
              NULL);
    pause = 2 * pause < longest ? 2 * pause : longest;
}

void channel_step(void)
{
    if (mqtt.code) {
        back_off();
        mqtt.code = mosquitto_reconnect(mqtt.client);
    } else {
        mqtt.code = mosquitto_loop(mqtt.client, 1000, 1);
    }
}

void channel_publish(const char *topic, const unsigned char *payload, size_t length, bool acknowledged)
{
    mosquitto_publish(mqtt.client, NULL, topic, (int)length, payload, acknowledged ? 1 : 0, false);
}

void channel_close(void)
{
    mosquitto_disconnect(mqtt.client);
    mosquitto_loop(mqtt.client, 0, 1);
    mosquitto_destroy(mqtt.client);
    mosquitto_lib_cleanup();
}
