/*
 * The channel over UDP, without a broker (docs/udp.md), with sealing.c. Argument: the credentials of a device, such
 * as device-7.toml of slotwise enroll --udp.
 *
 * One message is under way at a time, and is sent again until the server has it. Messages of this device are short:
 * all pieces of one are sent at once. Messages that wait when a session is lost are dropped, as device_connected()
 * says what is here, and the server asks for the rest.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <netdb.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"
#include "sealing.h"

enum { HELLO = 0x51, WELCOME, SEALED, UNKNOWN };     /* datagrams */
enum { PIECE = 1, RECEIVED, PING, PONG, BYE, ASK, BEACON }; /* contents of sealed ones */
enum { PUBLISH, RETAINED, CONNECT };                 /* messages */
#define VERSION 1
#define HELLO_BYTES (HEADER_BYTES + 1 + RANDOM_BYTES) /* without the tag */
#define WELCOME_BYTES (HEADER_BYTES + 3 + 2 * RANDOM_BYTES)
#define PIECE_HEAD 15 /* kind, message, number, pieces, question */
#define BEACON_HEAD 5  /* kind, nanoseconds since its slot began; a frame follows */
#define ANSWER_HEAD 11 /* kind, message, question, first missing piece; a bitmap follows */
#define MESSAGE_HEAD 5 /* kind, seconds, length of the topic; topic and payload follow */
#define WINDOW 128     /* pieces under way */
#define SMALLEST_DATAGRAM 128
#define LONGEST_OWN 8192 /* bytes of a message of this device: at most WINDOW pieces */
#define LONGEST (1 << 20) /* bytes of a message of the server */
#define MOST_QUESTIONS 65535
#define FIRST_PAUSE 0.25 /* seconds without an answer before a repetition */
#define SHORTEST_PAUSE 0.02
#define LONGEST_PAUSE 1.0
#define FIRST_HELLO 0.2
#define LONGEST_HELLO 2.0
#define SURELY_SILENT 0.5 /* seconds after which a hint that there is no session is believed */

const char *const channel_usage = "CREDENTIALS";

typedef struct Message {
    struct Message *next;
    size_t length;
    unsigned char bytes[];
} Message;

static struct { /* what lasts */
    char host[256], port[8];
    unsigned char secret[KEY_BYTES], header[HEADER_BYTES];
    uint64_t number;
    int socket;
    Message *will; /* as it is sent when a session begins */
    unsigned char random[RANDOM_BYTES];
    double hello_at, hello_pause;
    bool has_random, in_session, over;
} udp;

static struct { /* the session */
    Sealer sealer;
    Opener opener;
    size_t piece_bytes;
    double heard, spoken;
    Message *first, *last; /* the first is under way */
    bool under_way;
    uint32_t sent, base; /* number of the message under way; its first piece that the server lacks */
    unsigned question;
    double asked, pause, round_trip;
    uint32_t number, pieces, have; /* of the message that comes in: number, pieces, those before the first missing */
    bool ahead[WINDOW];            /* pieces from there on that are here */
    size_t length;
} session;
static unsigned char incoming[LONGEST + 1];

const bool channel_has_beacons = true;
static int64_t wake_at = INT64_MAX;

int64_t channel_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

void channel_wake_at(int64_t local)
{
    wake_at = local;
}

static double now(void)
{
    return 1e-9 * (double)channel_now();
}

/* ------------------------------------------------------------------------------------------- credentials file */

/* The text of "key = "text"" in a line; NULL if it is another line. */
static char *value_of(char *line, const char *key)
{
    size_t length = strlen(key);
    if (strncmp(line, key, length)) return NULL;
    char *text = line + length + strspn(line + length, " =");
    char *end = strrchr(text, '"');
    if (*text++ != '"' || !end || end <= text) return NULL;
    *end = 0;
    return text;
}

static bool read_broker(char *address)
{
    static const char scheme[] = "udp://";
    char *host = address + strlen(scheme), *end = NULL;
    if (strncmp(address, scheme, strlen(scheme))) return false;
    if (*host == '[' && (end = strchr(++host, ']'))) *end++ = 0; /* IPv6 */
    else if (!(end = strchr(host, ':'))) end = host + strlen(host);
    uint64_t port;
    if (*end && *end != ':') return false;
    const char *given = *end ? end + 1 : "8883";
    if (!number_in(given, &port) || !port || port > 65535) return false;
    snprintf(udp.port, sizeof udp.port, "%llu", (unsigned long long)port);
    *end = 0;
    snprintf(udp.host, sizeof udp.host, "%s", host);
    return *udp.host;
}

static bool read_secret(const char *text)
{
    unsigned char decoded[KEY_BYTES + 4];
    if (strlen(text) != 44 || EVP_DecodeBlock(decoded, (const unsigned char *)text, 44) != KEY_BYTES + 1) return false;
    memcpy(udp.secret, decoded, KEY_BYTES);
    return true;
}

bool channel_arguments(int count, char **arguments, char *name, uint64_t *number)
{
    char line[1024], *text;
    unsigned fields = 0;
    FILE *file = count == 2 ? fopen(arguments[1], "r") : NULL;
    if (!file) return false;
    while (fgets(line, sizeof line, file)) {
        if ((text = value_of(line, "broker")) && read_broker(text)) fields |= 1;
        else if ((text = value_of(line, "name")) && is_name(text)) fields |= 2, strcpy(name, text);
        else if ((text = value_of(line, "user")) && !strncmp(text, "device-", 7) && number_in(text + 7, number))
            fields |= 4;
        else if ((text = value_of(line, "secret")) && read_secret(text)) fields |= 8;
    }
    fclose(file);
    if (fields != 15) fprintf(stderr, "%s: not the credentials of a device over UDP\n", arguments[1]);
    return fields == 15;
}

/* --------------------------------------------------------------------------------------------------- sending */

static void send_datagram(const unsigned char *datagram, size_t length)
{
    if (length) (void)!send(udp.socket, datagram, length, 0); /* what is lost is sent again */
}

static void send_content(const unsigned char *content, size_t length)
{
    unsigned char datagram[LARGEST_DATAGRAM];
    send_datagram(datagram, seal(&session.sealer, udp.header, content, length, datagram));
    session.spoken = now();
}

static uint32_t pieces_under_way(void)
{
    return (uint32_t)((session.first->length + session.piece_bytes - 1) / session.piece_bytes);
}

/* Send the pieces that the server lacks; the last one asks what has come. */
static void send_pieces(uint32_t first, uint32_t end, const unsigned char *has, size_t known)
{
    unsigned char content[LARGEST_DATAGRAM];
    uint32_t pieces = pieces_under_way(), last = end;
    session.question = session.question % MOST_QUESTIONS + 1;
    session.asked = now();
    for (uint32_t n = first; n < end; n++)
        if (n - first >= 8 * known || !(has[(n - first) / 8] >> (n - first) % 8 & 1)) last = n;
    for (uint32_t n = first; n < end; n++) {
        if (n - first < 8 * known && has[(n - first) / 8] >> (n - first) % 8 & 1) continue;
        size_t at = n * session.piece_bytes, rest = session.first->length - at;
        size_t length = rest < session.piece_bytes ? rest : session.piece_bytes;
        content[0] = PIECE;
        put_number(content + 1, session.sent, 4);
        put_number(content + 5, n, 4);
        put_number(content + 9, pieces, 4);
        put_number(content + 13, n == last ? session.question : 0, 2);
        memcpy(content + PIECE_HEAD, session.first->bytes + at, length);
        send_content(content, PIECE_HEAD + length);
    }
}

/* Begin with the next message, or repeat a piece if no answer has come for too long. */
static void send_due(void)
{
    if (!session.first) return;
    if (!session.under_way) {
        session.under_way = true;
        session.base = 0;
        send_pieces(0, pieces_under_way(), NULL, 0);
    } else if (now() >= session.asked + session.pause) {
        session.pause = 2 * session.pause < LONGEST_PAUSE ? 2 * session.pause : LONGEST_PAUSE;
        send_pieces(session.base, session.base + 1, NULL, 0);
    }
}

static Message *new_message(int kind, unsigned seconds, const char *topic, const unsigned char *payload, size_t length)
{
    size_t named = strlen(topic), whole = MESSAGE_HEAD + named + length;
    Message *message = whole <= LONGEST_OWN ? malloc(sizeof *message + whole) : NULL;
    if (!message) return NULL;
    message->next = NULL;
    message->length = whole;
    message->bytes[0] = (unsigned char)kind;
    put_number(message->bytes + 1, seconds, 2);
    put_number(message->bytes + 3, named, 2);
    memcpy(message->bytes + MESSAGE_HEAD, topic, named);
    memcpy(message->bytes + MESSAGE_HEAD + named, payload, length);
    return message;
}

static void post(Message *message)
{
    if (!message) return;
    if (session.last) session.last->next = message;
    else session.first = message;
    session.last = message;
    send_due();
}

static void drop_first(void)
{
    Message *done = session.first;
    session.first = done->next;
    if (!session.first) session.last = NULL;
    session.under_way = false;
    free(done);
}

void channel_publish(const char *topic, const unsigned char *payload, size_t length, bool acknowledged)
{
    (void)acknowledged; /* all are, as long as there is a session */
    if (udp.in_session) post(new_message(PUBLISH, 0, topic, payload, length));
}

/* -------------------------------------------------------------------------------------------------- sessions */

static void lose_session(void)
{
    while (session.first) drop_first();
    if (udp.in_session) fprintf(stderr, "no connection to the server; retrying\n");
    udp.in_session = false;
    udp.hello_at = now();
    udp.hello_pause = FIRST_HELLO;
}

static void say_hello(void)
{
    unsigned char hello[HELLO_BYTES + TAG_BYTES], key[KEY_BYTES];
    if (!udp.has_random && !(udp.has_random = random_bytes(udp.random, RANDOM_BYTES))) return;
    hello[0] = HELLO;
    memcpy(hello + 1, udp.header + 1, 2);
    hello[HEADER_BYTES] = VERSION;
    memcpy(hello + HEADER_BYTES + 1, udp.random, RANDOM_BYTES);
    if (derive(udp.secret, NULL, 0, "hello", key) && prove(key, udp.random, hello, HELLO_BYTES, hello + HELLO_BYTES))
        send_datagram(hello, sizeof hello);
    udp.hello_at = now() + udp.hello_pause;
    udp.hello_pause = 2 * udp.hello_pause < LONGEST_HELLO ? 2 * udp.hello_pause : LONGEST_HELLO;
}

static void take_welcome(const unsigned char *datagram, size_t length)
{
    static const unsigned char zeros[NONCE_BYTES];
    unsigned char key[KEY_BYTES];
    if (udp.in_session || !udp.has_random || length != WELCOME_BYTES + TAG_BYTES) return;
    const unsigned char *randoms = datagram + HEADER_BYTES + 3; /* of both sides */
    size_t frame = get_number(datagram + HEADER_BYTES + 1, 2);
    if (datagram[HEADER_BYTES] != VERSION || frame < SMALLEST_DATAGRAM || frame > LARGEST_DATAGRAM) return;
    if (memcmp(randoms, udp.random, RANDOM_BYTES) || !derive(udp.secret, randoms, 2 * RANDOM_BYTES, "welcome", key) ||
        !is_proof(key, zeros, datagram, WELCOME_BYTES, datagram + WELCOME_BYTES))
        return;
    memset(&session, 0, sizeof session);
    if (!derive(udp.secret, randoms, 2 * RANDOM_BYTES, "to server", session.sealer.key) ||
        !derive(udp.secret, randoms, 2 * RANDOM_BYTES, "to device", session.opener.key))
        return;
    session.piece_bytes = frame - SEALED_BYTES - PIECE_HEAD;
    session.heard = session.spoken = now();
    session.pause = FIRST_PAUSE;
    udp.in_session = true;
    udp.has_random = false;
    Message *will = malloc(sizeof *will + udp.will->length);
    if (will) memcpy(will, udp.will, sizeof *will + udp.will->length);
    post(will);
    device_connected();
}

/* ------------------------------------------------------------------------------------------------- receiving */

static void take_message(size_t length)
{
    char topic[2 * TOPIC_ROOM];
    if (length < MESSAGE_HEAD || incoming[0] >= CONNECT) return;
    size_t named = get_number(incoming + 3, 2);
    if (named >= sizeof topic || MESSAGE_HEAD + named > length) return;
    memcpy(topic, incoming + MESSAGE_HEAD, named);
    topic[named] = 0;
    if (length > MESSAGE_HEAD + named) device_receive(topic, incoming + MESSAGE_HEAD + named, length - MESSAGE_HEAD - named);
}

static void answer(uint32_t message, unsigned question, uint32_t base, bool with_bitmap)
{
    unsigned char content[ANSWER_HEAD + WINDOW / 8] = {RECEIVED};
    size_t length = ANSWER_HEAD;
    put_number(content + 1, message, 4);
    put_number(content + 5, question, 2);
    put_number(content + 7, base, 4);
    for (size_t n = 0; with_bitmap && n < WINDOW; n++) {
        if (!session.ahead[n]) continue;
        content[ANSWER_HEAD + n / 8] |= (unsigned char)(1u << n % 8);
        length = ANSWER_HEAD + n / 8 + 1;
    }
    send_content(content, length);
}

static void take_piece(const unsigned char *content, size_t length)
{
    uint32_t message = (uint32_t)get_number(content + 1, 4), number = (uint32_t)get_number(content + 5, 4);
    uint32_t pieces = (uint32_t)get_number(content + 9, 4);
    unsigned question = (unsigned)get_number(content + 13, 2);
    size_t size = session.piece_bytes, data = length - PIECE_HEAD;
    if (number >= pieces) return;
    if (message < session.number) { /* the answer was lost */
        if (question) answer(message, question, pieces, false);
        return;
    }
    if (message > session.number || (session.pieces && pieces != session.pieces) || pieces > LONGEST / size) return;
    if (data > size || (number + 1 < pieces && data < size)) return;
    session.pieces = pieces;
    if (number >= session.have && number - session.have < WINDOW) {
        session.ahead[number - session.have] = true;
        memcpy(incoming + number * size, content + PIECE_HEAD, data);
        if (number + 1 == pieces) session.length = number * size + data;
    }
    while (session.ahead[0]) {
        memmove(session.ahead, session.ahead + 1, WINDOW - 1);
        session.ahead[WINDOW - 1] = false;
        session.have++;
    }
    if (session.have < pieces) {
        if (question) answer(message, question, session.have, true);
        return;
    }
    size_t whole = session.length;
    session.number++;
    session.pieces = session.have = 0;
    session.length = 0;
    answer(message, question, pieces, false);
    take_message(whole);
}

static void take_answer(const unsigned char *content, size_t length)
{
    uint32_t base = (uint32_t)get_number(content + 7, 4);
    if (!session.under_way || get_number(content + 1, 4) != session.sent) return;
    uint32_t pieces = pieces_under_way();
    if (base > pieces) base = pieces;
    if (base > session.base) session.base = base;
    bool latest = get_number(content + 5, 2) == session.question;
    if (latest) {
        session.round_trip += (now() - session.asked - session.round_trip) / (session.round_trip > 0 ? 8 : 1);
        double pause = 2 * session.round_trip;
        session.pause = pause < SHORTEST_PAUSE ? SHORTEST_PAUSE : pause < LONGEST_PAUSE ? pause : LONGEST_PAUSE;
    }
    if (session.base >= pieces) {
        session.sent++;
        drop_first();
        send_due();
    } else if (latest && base == session.base) { /* else the answer to the latest question will come, too */
        send_pieces(base, pieces, content + ANSWER_HEAD, length - ANSWER_HEAD);
    }
}

static void take_content(const unsigned char *content, size_t length)
{
    static const unsigned char pong = PONG;
    session.heard = now();
    if (length == 1 && content[0] == PING) send_content(&pong, 1);
    else if (length == 1 && content[0] == BYE) lose_session();
    else if (length > BEACON_HEAD && content[0] == BEACON)
        device_beacon(content + BEACON_HEAD, length - BEACON_HEAD, channel_now() - (int64_t)get_number(content + 1, 4));
    else if (length >= PIECE_HEAD && content[0] == PIECE) take_piece(content, length);
    else if (length >= ANSWER_HEAD && length <= ANSWER_HEAD + WINDOW / 8 && content[0] == RECEIVED)
        take_answer(content, length);
}

static void take_datagram(const unsigned char *datagram, size_t length)
{
    unsigned char content[LARGEST_DATAGRAM];
    size_t content_length;
    if (length < HEADER_BYTES || memcmp(datagram + 1, udp.header + 1, 2)) return;
    if (datagram[0] == SEALED && udp.in_session) {
        if (open_sealed(&session.opener, datagram, length, content, &content_length))
            take_content(content, content_length);
    } else if (datagram[0] == UNKNOWN && udp.in_session) {
        if (now() - session.heard > SURELY_SILENT) lose_session();
    } else if (datagram[0] == WELCOME) {
        take_welcome(datagram, length);
    }
}

/* ---------------------------------------------------------------------------------------------------- the channel */

/* Open a socket to the server; its name may be known only later. */
static void open_socket(void)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *found = NULL;
    udp.socket = -1;
    if (!getaddrinfo(udp.host, udp.port, &hints, &found)) {
        udp.socket = socket(found->ai_family, SOCK_DGRAM, 0);
        if (udp.socket >= 0 && connect(udp.socket, found->ai_addr, found->ai_addrlen)) {
            close(udp.socket);
            udp.socket = -1;
        }
        freeaddrinfo(found);
    }
    if (udp.socket < 0) nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
}

int channel_open(const char *name, uint64_t number, const char *topic, const unsigned char *will, size_t length)
{
    (void)name; /* the topics have it */
    if (number > 65535) return 2;
    udp.number = number;
    udp.socket = -1;
    udp.header[0] = SEALED;
    put_number(udp.header + 1, number, 2);
    udp.will = new_message(CONNECT, KEEPALIVE, topic, will, length);
    udp.hello_pause = FIRST_HELLO;
    return udp.will ? 0 : 1;
}

/* Send what is due; return the seconds until the next time. */
static double tick(void)
{
    static const unsigned char ping = PING;
    double time = now(), due;
    if (udp.in_session && time - session.heard > 0.75 * KEEPALIVE) lose_session();
    if (!udp.in_session) {
        if (time >= udp.hello_at) say_hello();
        return udp.hello_at - time;
    }
    send_due();
    due = (session.heard > session.spoken ? session.heard : session.spoken) + 0.25 * KEEPALIVE;
    if (time >= due) {
        send_content(&ping, 1);
        due = time + 0.25 * KEEPALIVE;
    }
    if (session.under_way && session.asked + session.pause < due) due = session.asked + session.pause;
    return due - time;
}

void channel_step(void)
{
    unsigned char datagram[LARGEST_DATAGRAM + 1];
    if (udp.socket < 0) {
        open_socket();
        return;
    }
    double left = tick();
    struct pollfd waiting = {.fd = udp.socket, .events = POLLIN};
    if (wake_at < INT64_MAX && 1e-9 * (double)(wake_at - channel_now()) < left) left = 1e-9 * (double)(wake_at - channel_now());
    if (poll(&waiting, 1, left > 1 ? 1000 : left > 0 ? (int)(1000 * left) + 1 : 1) <= 0) return;
    ssize_t length = recv(udp.socket, datagram, sizeof datagram, 0);
    if (length >= 0) take_datagram(datagram, (size_t)length);
    else if (errno == ECONNREFUSED && udp.in_session && now() - session.heard > SURELY_SILENT) lose_session();
}

void channel_close(void)
{
    static const unsigned char bye = BYE;
    if (udp.in_session) send_content(&bye, 1);
    while (session.first) drop_first();
    free(udp.will);
    close(udp.socket);
}
