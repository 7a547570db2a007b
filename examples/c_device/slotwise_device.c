/*
 * A slotwise device in C: protocols 2 and 3 (docs/protocol.md) and logistic regression, over MQTT or over UDP.
 *
 *   cc -std=c11 -O2 -ffp-contract=off slotwise_device.c channel_mqtt.c -lmosquitto -lm -o slotwise_device
 *   ./slotwise_device HOST PORT NAME NUMBER [CA CERTIFICATE KEY]
 *
 *   cc -std=c11 -O2 -ffp-contract=off slotwise_device.c channel_udp.c -lcrypto -lm -o slotwise_device_udp
 *   ./slotwise_device_udp CREDENTIALS      (device-7.toml of slotwise enroll --udp)
 *
 * It takes part in the run that a server announces on channel NAME, as device NUMBER, and ends with the run:
 * exit code 0, or 3 if it was excluded then. The server and other devices run the same task in Python:
 * slotwise serve --task logistic_task:make. Updates have the same bits, if both use the same exp().
 *
 * ./slotwise_device --decode prints the message on standard input, --count when slots begin; the tests use them.
 *
 * Two simplifications. A training takes microseconds, so it is done where its model arrives; a device that
 * computes for longer does it in a thread and goes on answering. And a model of nine numbers never comes in
 * parts; a device whose model is longer than the packets of a broker has to put parts together.
 */
#define _POSIX_C_SOURCE 200809L
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "channel.h"

#define PROTOCOL 3 /* that this device speaks */
#define OLDEST 2   /* and that it understands */
#define FEATURES 8
#define SIZE (FEATURES + 1) /* numbers of the model: weights and bias */
#define SAMPLES 64          /* of one device */
#define BATCH 16
#define STEPS 4
#define RATE 0.5
#define TEXT 512 /* bytes of the longest text in a message that this device stores */
#define HEADER_LIMIT (4u << 20)

/* ------------------------------------------------------------------ the task: keep it as logistic_task.py */

uint64_t mixed(uint64_t state) /* SplitMix64 */
{
    state += 0x9E3779B97F4A7C15u;
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBu;
    return state ^ (state >> 31);
}

/* A number in [-1, 1) that depends on device, sample and feature alone. */
static double feature(uint64_t device, uint64_t sample, uint64_t number)
{
    return (double)(mixed((device * SAMPLES + sample) * FEATURES + number) >> 11) * 0x1p-52 - 1.0;
}

static double label_of(const double *inputs)
{
    double sum = 0.25;
    for (int j = 0; j < FEATURES; j++) sum += (j % 2 ? -1.0 : 1.0) * inputs[j];
    return sum > 0 ? 1.0 : 0.0;
}

/* Mini-batch gradient descent from a model; the update is the model before minus the model after. */
static void local_update(const float *model, uint64_t device, uint64_t training, float *update)
{
    double w[SIZE];
    for (int j = 0; j < SIZE; j++) w[j] = model[j];
    for (uint64_t step = 0; step < STEPS; step++) {
        double gradient[SIZE] = {0};
        for (uint64_t b = 0; b < BATCH; b++) {
            uint64_t sample = ((training * STEPS + step) * BATCH + b) % SAMPLES;
            double inputs[FEATURES], z = w[FEATURES];
            for (int j = 0; j < FEATURES; j++) inputs[j] = feature(device, sample, j);
            for (int j = 0; j < FEATURES; j++) z += w[j] * inputs[j];
            double error = 1.0 / (1.0 + exp(-z)) - label_of(inputs);
            for (int j = 0; j < FEATURES; j++) gradient[j] += error * inputs[j];
            gradient[FEATURES] += error;
        }
        for (int j = 0; j < SIZE; j++) w[j] -= RATE / BATCH * gradient[j];
    }
    for (int j = 0; j < SIZE; j++) update[j] = (float)((double)model[j] - w[j]);
}

/* ---------------------------------------------------------------------------- JSON, as far as it is needed */

typedef struct {
    const char *at, *end;
} Span;

static void skip_space(Span *s)
{
    while (s->at < s->end && strchr(" \t\r\n", *s->at) && *s->at) s->at++;
}

static bool skip_char(Span *s, char wanted)
{
    skip_space(s);
    if (s->at >= s->end || *s->at != wanted) return false;
    s->at++;
    return true;
}

/* A text between quotes; escapes are left as they are. */
static bool take_string(Span *s, Span *text)
{
    if (!skip_char(s, '"')) return false;
    text->at = s->at;
    while (s->at < s->end && *s->at != '"') s->at += *s->at == '\\' ? 2 : 1;
    if (s->at >= s->end) return false;
    text->end = s->at++;
    return true;
}

static bool skip_value(Span *s, int depth);

/* The members of an object one after another; a false *more ends it. */
static bool next_member(Span *s, bool first, bool *more, Span *key, Span *value, int depth)
{
    *more = true;
    if (skip_char(s, '}')) {
        *more = false;
        return true;
    }
    if (!first && !skip_char(s, ',')) return false;
    if (!take_string(s, key) || !skip_char(s, ':')) return false;
    skip_space(s);
    value->at = s->at;
    if (!skip_value(s, depth)) return false;
    value->end = s->at;
    return true;
}

static bool skip_value(Span *s, int depth)
{
    Span text, value;
    skip_space(s);
    if (s->at >= s->end || depth > 16) return false;
    if (*s->at == '"') return take_string(s, &text);
    if (skip_char(s, '{')) {
        bool more = true;
        for (bool first = true;; first = false) {
            if (!next_member(s, first, &more, &text, &value, depth + 1)) return false;
            if (!more) return true;
        }
    }
    if (skip_char(s, '[')) {
        if (skip_char(s, ']')) return true;
        do {
            if (!skip_value(s, depth + 1)) return false;
        } while (skip_char(s, ','));
        return skip_char(s, ']');
    }
    const char *before = s->at;
    while (s->at < s->end && (isalnum((unsigned char)*s->at) || strchr("+-.", *s->at)) && *s->at) s->at++;
    return s->at > before;
}

static bool is(Span text, const char *wanted)
{
    size_t length = strlen(wanted);
    return (size_t)(text.end - text.at) == length && !memcmp(text.at, wanted, length);
}

/* The value of a key in an object, which must be well formed to its end. */
static bool find(Span object, const char *wanted, Span *found)
{
    bool more = true, seen = false;
    Span key, value;
    if (!skip_char(&object, '{')) return false;
    for (bool first = true;; first = false) {
        if (!next_member(&object, first, &more, &key, &value, 1)) return false;
        if (!more) return seen;
        if (is(key, wanted)) {
            *found = value;
            seen = true;
        }
    }
}

/* ------------------------------------------------------------------------------------------------ messages */

typedef struct {
    char run[TEXT];
    uint64_t device, round, version, training; /* the label */
    Span metadata;                             /* label and fields */
    float numbers[SIZE];
    size_t count; /* of numbers in the message, also if they are more than SIZE */
} Frame;

/* A field as text without escapes; false if there is none, or it is too long to be of use here. */
static bool field(const Frame *frame, const char *name, char *text)
{
    Span value;
    if (!find(frame->metadata, name, &value) || value.end - value.at < 2 || *value.at != '"') return false;
    size_t length = (size_t)(value.end - value.at) - 2;
    if (length >= TEXT || memchr(value.at + 1, '\\', length)) return false;
    memcpy(text, value.at + 1, length);
    text[length] = 0;
    return true;
}

bool number_in(const char *text, uint64_t *value)
{
    size_t length = strlen(text);
    if (!length || length > 18 || strspn(text, "0123456789") != length) return false;
    *value = strtoull(text, NULL, 10);
    return true;
}

static bool number_field(const Frame *frame, const char *name, uint64_t *value)
{
    char text[TEXT];
    return field(frame, name, text) && number_in(text, value);
}

static uint32_t little_endian(const unsigned char *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Read a safetensors file with label, fields and at most one vector of float32. */
static bool decode(const unsigned char *payload, size_t size, Frame *frame)
{
    Span vector, entry, number_count;
    memset(frame, 0, sizeof *frame);
    if (size < 8 || little_endian(payload + 4)) return false;
    size_t header = little_endian(payload);
    if (header > HEADER_LIMIT || header > size - 8) return false;
    Span document = {(const char *)payload + 8, (const char *)payload + 8 + header};
    const unsigned char *body = payload + 8 + header;
    size_t body_size = size - 8 - header;
    if (!find(document, "__metadata__", &frame->metadata)) return false;
    if (!field(frame, "run", frame->run)) return false;
    if (!number_field(frame, "device", &frame->device) || !number_field(frame, "round", &frame->round) ||
        !number_field(frame, "version", &frame->version) || !number_field(frame, "training", &frame->training))
        return false;
    if (!find(document, "vector", &vector)) return body_size == 0;
    if (!find(vector, "dtype", &entry) || !is(entry, "\"F32\"")) return false;
    if (!find(vector, "shape", &number_count) || !skip_char(&number_count, '[')) return false;
    frame->count = body_size / 4;
    if (strtoull(number_count.at, NULL, 10) != frame->count || body_size % 4) return false;
    for (size_t j = 0; j < frame->count && j < SIZE; j++) {
        uint32_t bits = little_endian(body + 4 * j);
        memcpy(&frame->numbers[j], &bits, 4);
    }
    return true;
}

/* Write label, fields (JSON members that begin with a comma, or nothing) and numbers; return the length. */
static size_t encode(unsigned char *payload, size_t room, const Frame *label, const char *fields,
                     const float *numbers)
{
    char array[128] = "";
    if (numbers)
        snprintf(array, sizeof array, ",\"vector\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[0,%d]}",
                 SIZE, 4 * SIZE);
    int written = snprintf((char *)payload + 8, room - 8 - 4 * SIZE - 8,
                           "{\"__metadata__\":{\"run\":\"%s\",\"device\":\"%llu\",\"round\":\"%llu\","
                           "\"version\":\"%llu\",\"training\":\"%llu\"%s}%s}",
                           label->run, (unsigned long long)label->device, (unsigned long long)label->round,
                           (unsigned long long)label->version, (unsigned long long)label->training, fields, array);
    size_t length = (size_t)written;
    while (length % 8) payload[8 + length++] = ' '; /* so that the numbers are aligned */
    for (int j = 0; j < 8; j++) payload[j] = (unsigned char)(length >> 8 * j);
    for (int j = 0; numbers && j < SIZE; j++) {
        uint32_t bits;
        memcpy(&bits, &numbers[j], 4);
        for (int k = 0; k < 4; k++) payload[8 + length + 4 * (size_t)j + (size_t)k] = (unsigned char)(bits >> 8 * k);
    }
    return 8 + length + (numbers ? 4 * SIZE : 0);
}

static uint32_t crc_of(const unsigned char *bytes, size_t length) /* CRC-32, as in zlib */
{
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t n = 0; n < length; n++) {
        crc ^= bytes[n];
        for (int b = 0; b < 8; b++) crc = crc >> 1 ^ (0xEDB88320u & -(crc & 1));
    }
    return ~crc;
}

static uint32_t checksum(const float *numbers)
{
    unsigned char bytes[4 * SIZE];
    for (int j = 0; j < SIZE; j++) {
        uint32_t bits;
        memcpy(&bits, &numbers[j], 4);
        for (int k = 0; k < 4; k++) bytes[4 * j + k] = (unsigned char)(bits >> 8 * k);
    }
    return crc_of(bytes, sizeof bytes);
}

/* ----------------------------------------------------------------------- slots that are time (docs/slots.md) */

#define MOST_GRANTS 80 /* in a beacon that fits into a datagram */
#define BEACON_HEAD 18 /* bytes before its grants */
#define GRANT_BYTES 18
#define FARTHEST_SLOT ((uint64_t)1 << 40)
#define RATE_UNIT 1000000000000 /* an estimated drift counts in parts of this */
#define MOST_RATE (RATE_UNIT / 2000)

__extension__ typedef __int128 Wide;

typedef struct {
    int64_t first, slots;
    uint64_t version, training;
} SlotGrant;

typedef struct {
    bool on;                           /* in a run with slots */
    int64_t slot_ns, send_after, guard; /* nanoseconds */
    int64_t beacons, slot, local, rate; /* beacons heard, the slot of the last, when that began, and the drift */
    SlotGrant grants[MOST_GRANTS], sent; /* that lie ahead, and the last that was used */
    size_t count;
} Slots;

static int64_t part(Wide value, Wide divisor) /* rounded down; the divisor is positive */
{
    return (int64_t)(value / divisor - (value % divisor < 0));
}

/* When a slot begins, by the local clock. */
static int64_t slot_begins(const Slots *s, int64_t slot)
{
    Wide passed = (Wide)(slot - s->slot) * s->slot_ns;
    return (int64_t)(s->local + passed + part(passed * s->rate, RATE_UNIT));
}

/* Take a beacon: a slot began at a local time. Late ones count less, as none is heard before it is sent. */
static void count_slots(Slots *s, int64_t slot, int64_t local)
{
    Wide passed = (Wide)(slot - s->slot) * s->slot_ns;
    int64_t error = local - slot_begins(s, slot);
    if (!s->beacons || error > s->slot_ns / 2 || error < -(s->slot_ns / 2)) {
        s->beacons = 1;
        s->slot = slot;
        s->local = local;
        s->rate = 0;
    } else if (passed > 0) {
        s->beacons++;
        s->local = local - error + (error < 0 ? error : part(error, 16));
        s->rate += part(part((Wide)error * RATE_UNIT, passed), 64);
        if (s->rate > MOST_RATE) s->rate = MOST_RATE;
        if (s->rate < -MOST_RATE) s->rate = -MOST_RATE;
        s->slot = slot;
    }
}

static uint64_t number_at(const unsigned char *bytes, int count) /* little-endian */
{
    uint64_t value = 0;
    for (int k = count - 1; k >= 0; k--) value = value << 8 | bytes[k];
    return value;
}

/* Read a beacon, which replaces all that was known of the coming grants. */
static void hear_beacon(Slots *s, uint64_t device, const unsigned char *frame, size_t length, int64_t local)
{
    if (!s->on || length < BEACON_HEAD + 4 || crc_of(frame, length - 4) != number_at(frame + length - 4, 4)) return;
    size_t count = frame[17];
    uint64_t slot = number_at(frame + 1, 8);
    if (frame[0] != 1 || length != BEACON_HEAD + count * GRANT_BYTES + 4 || slot >= FARTHEST_SLOT) return;
    if (number_at(frame + 9, 8) != (uint64_t)s->slot_ns) return;
    count_slots(s, (int64_t)slot, local);
    s->count = 0;
    for (size_t n = 0; n < count && n < MOST_GRANTS; n++) {
        const unsigned char *at = frame + BEACON_HEAD + n * GRANT_BYTES;
        int64_t ahead = (int64_t)(int32_t)number_at(at, 4);
        SlotGrant grant = {(int64_t)slot + ahead, (int64_t)number_at(at + 4, 4), number_at(at + 10, 4), number_at(at + 14, 4)};
        bool used = grant.first == s->sent.first && grant.version == s->sent.version &&
                    grant.training == s->sent.training && s->sent.slots;
        if (number_at(at + 8, 2) == device && !used) s->grants[s->count++] = grant;
    }
}

/* The grant to use now; NULL if there is none. The channel wakes this device for the next one. */
static const SlotGrant *grant_due(Slots *s, int64_t now)
{
    channel_wake_at(INT64_MAX);
    while (s->on && s->count) {
        SlotGrant grant = s->grants[0];
        int64_t moment = slot_begins(s, grant.first) + s->send_after;
        if (now < moment) {
            channel_wake_at(moment);
            return NULL;
        }
        memmove(s->grants, s->grants + 1, --s->count * sizeof *s->grants);
        if (now >= slot_begins(s, grant.first + grant.slots) - s->guard) continue; /* not in the last guard time */
        s->sent = grant;
        return &s->sent;
    }
    return NULL;
}

/* Read the field of an announcement; false if these are no slots. */
static bool enter_slots(Slots *s, const char *text)
{
    char numbers[3][TEXT];
    uint64_t values[3];
    if (sscanf(text, "%18[0-9]:%18[0-9]:%18[0-9]", numbers[0], numbers[1], numbers[2]) != 3) return false;
    if (strspn(text, "0123456789:") != strlen(text)) return false;
    for (int n = 0; n < 3; n++)
        if (!number_in(numbers[n], &values[n])) return false;
    if (values[2] > values[1] || values[1] >= values[0] || values[0] > (uint64_t)1000000000 * 1000000) return false;
    memset(s, 0, sizeof *s);
    s->slot_ns = (int64_t)values[0];
    s->send_after = (int64_t)values[1];
    s->guard = (int64_t)values[2];
    s->on = true;
    return true;
}

/* ---------------------------------------------------------------------------------------------- the device */

typedef struct {
    char root[TEXT / 2], boot[32], run[TEXT];
    uint64_t number;
    bool in_run, has_work, over, excluded;
    uint64_t version, training; /* of the work */
    float model[SIZE], update[SIZE];
    double seconds;
    Slots slots;
} Device;

static void publish(Device *d, const char *kind, const Frame *label, const char *fields, const float *numbers,
                    bool acknowledged)
{
    unsigned char payload[8192];
    char topic[TOPIC_ROOM];
    size_t length = encode(payload, sizeof payload, label, fields, numbers);
    snprintf(topic, sizeof topic, "%.255s/from/%llu/%s", d->root, (unsigned long long)d->number, kind);
    channel_publish(topic, payload, length, acknowledged);
}

static Frame own_label(const Device *d)
{
    Frame label = {0};
    memcpy(label.run, d->run, sizeof label.run);
    label.device = d->number;
    return label;
}

/* Work and a checksum of its model; empty without work. */
static void holds(const Device *d, char *text, size_t room)
{
    *text = 0;
    if (d->has_work)
        snprintf(text, room, "%llu:%llu:%08x", (unsigned long long)d->version, (unsigned long long)d->training,
                 (unsigned)checksum(d->model));
}

static void send_here(Device *d)
{
    char fields[TEXT], held[64];
    Frame label = own_label(d);
    holds(d, held, sizeof held);
    snprintf(fields, sizeof fields,
             ",\"boot\":\"%s\",\"holds\":\"%s\",\"protocol\":\"%d\",\"oldest\":\"%d\",\"slotwise\":\"c-reference\"",
             d->boot, held, PROTOCOL, OLDEST);
    publish(d, "here", &label, fields, NULL, true);
}

static void send_ready(Device *d)
{
    char fields[64];
    Frame label = own_label(d);
    label.round = label.version = d->version;
    label.training = d->training;
    snprintf(fields, sizeof fields, ",\"seconds\":\"%.6f\"", d->seconds);
    publish(d, "ready", &label, fields, NULL, false);
}

/* Train on the model in a message, unless that is done already. */
static void begin(Device *d, const Frame *frame, uint64_t training)
{
    struct timespec from, to;
    if (frame->count != SIZE) {
        d->has_work = false;
        if (frame->count) fprintf(stderr, "the server's model has %zu numbers, not %d\n", frame->count, SIZE);
        else send_here(d); /* holding nothing, so that the answer has the model */
        return;
    }
    bool known = d->has_work && d->version == frame->version && d->training == training &&
                 !memcmp(d->model, frame->numbers, sizeof d->model);
    if (!known) {
        memcpy(d->model, frame->numbers, sizeof d->model);
        d->version = frame->version;
        d->training = training;
        clock_gettime(CLOCK_MONOTONIC, &from);
        local_update(d->model, d->number, training, d->update);
        clock_gettime(CLOCK_MONOTONIC, &to);
        d->seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
        d->has_work = true;
    }
    send_ready(d);
}

static void take_call(Device *d, const Frame *frame)
{
    uint64_t devices, protocol = 1, oldest;
    char slots[TEXT];
    if (strcmp(frame->run, d->run) || !*d->run) {
        if (!number_field(frame, "devices", &devices)) return; /* only a call to all describes a run */
        if (strspn(frame->run, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-") !=
            strlen(frame->run))
            return; /* it is copied into JSON */
        memcpy(d->run, frame->run, sizeof d->run);
        d->in_run = d->has_work = d->slots.on = false;
        number_field(frame, "protocol", &protocol);
        oldest = protocol;
        number_field(frame, "oldest", &oldest);
        if (protocol < OLDEST || oldest > PROTOCOL) {
            fprintf(stderr, "the server speaks protocol %llu to %llu, this device %d to %d; waiting for another run\n",
                    (unsigned long long)oldest, (unsigned long long)protocol, OLDEST, PROTOCOL);
            if (protocol >= 2) send_here(d); /* the server compares versions, and its operator can see it */
            *d->run = 0;                     /* another version of the server may announce the run again */
            return;
        }
        if (d->number > devices) {
            fprintf(stderr, "the run only has devices 1 to %llu; waiting for another run\n",
                    (unsigned long long)devices);
            return;
        }
        if (field(frame, "slots", slots) && (!channel_has_beacons || !enter_slots(&d->slots, slots))) {
            fprintf(stderr, "the run grants slots ahead of time, which is not possible here; waiting for another run\n");
            return;
        }
        d->in_run = true;
    }
    if (d->in_run) send_here(d);
}

static void take_model(Device *d, const Frame *frame)
{
    Span value;
    if (!find(frame->metadata, "receivers", &value)) return;
    for (const char *at = value.at + 1; at < value.end; at++) { /* device:training,device:training,... */
        char *next;
        uint64_t device = strtoull(at, &next, 10);
        if (next == at || *next != ':') return;
        uint64_t training = strtoull(at = next + 1, &next, 10);
        if (next == at) return;
        if (device == d->number) {
            begin(d, frame, training);
            return;
        }
        at = next;
        if (*at != ',') return;
    }
}

static void take_grant(Device *d, const Frame *frame)
{
    uint64_t grant;
    char fields[64];
    if (!d->has_work || d->version != frame->version || d->training != frame->training) {
        send_here(d); /* that work is not here: the server will answer what to do */
    } else if (number_field(frame, "grant", &grant)) {
        snprintf(fields, sizeof fields, ",\"grant\":\"%llu\"", (unsigned long long)grant);
        publish(d, "update", frame, fields, d->update, false); /* with the label of the grant */
    }
}

/* Send the update if slots of this device have begun; it is silent if it has other work or none. */
static void use_slots(Device *d)
{
    const SlotGrant *grant = grant_due(&d->slots, channel_now());
    char fields[64];
    if (!grant || !d->in_run || !d->has_work || d->version != grant->version || d->training != grant->training) return;
    Frame label = own_label(d);
    label.version = grant->version;
    label.training = grant->training;
    snprintf(fields, sizeof fields, ",\"slot\":\"%lld\"", (long long)grant->first);
    publish(d, "update", &label, fields, d->update, false);
}

static void take_order(Device *d, const char *kind, const Frame *frame)
{
    char answered[TEXT], held[64];
    if (!strcmp(kind, "end")) {
        d->over = true;
        return;
    }
    d->excluded = !strcmp(kind, "out");
    if (d->excluded) {
        if (!field(frame, "seconds", answered)) *answered = 0;
        fprintf(stderr, "excluded by the server for %s s; waiting\n", *answered ? answered : "some");
        d->has_work = false; /* the server calls when this device may return */
    } else if (!strcmp(kind, "incompatible")) {
        fprintf(stderr, "the server does not speak protocol %d; waiting for another run\n", PROTOCOL);
        d->in_run = d->has_work = false;
        *d->run = 0;
    } else if (!d->in_run) {
        return;
    } else if (!strcmp(kind, "model")) {
        take_model(d, frame);
    } else if (!strcmp(kind, "work")) {
        bool same = d->has_work && d->version == frame->version && d->training == frame->training;
        if (same && !frame->count) send_ready(d);
        else begin(d, frame, frame->training);
    } else if (!strcmp(kind, "rest")) {
        holds(d, held, sizeof held);
        if (!field(frame, "holds", answered)) *answered = 0;
        if (!strcmp(answered, held)) d->has_work = false; /* unless there is other work by now */
    } else if (!strcmp(kind, "grant")) {
        take_grant(d, frame);
    }
}

static Device device;

void device_receive(const char *topic, const unsigned char *payload, size_t length)
{
    Device *d = &device;
    Frame frame;
    char rest[TEXT];
    size_t root = strlen(d->root);
    if (d->over || !length || strncmp(topic, d->root, root) || topic[root] != '/') return;
    snprintf(rest, sizeof rest, "%s", topic + root + 1);
    char *kind = !strncmp(rest, "all/", 4) ? rest + 4 : strrchr(rest, '/');
    if (!kind || !decode(payload, length, &frame)) return;
    if (*kind == '/') kind++;
    else kind[strcspn(kind, "/")] = 0; /* the topic of a model goes on with its receivers */
    if (!strcmp(kind, "call")) take_call(d, &frame);
    else if (*d->run && !strcmp(frame.run, d->run)) take_order(d, kind, &frame);
}

void device_beacon(const unsigned char *frame, size_t length, int64_t local)
{
    hear_beacon(&device.slots, device.number, frame, length, local);
}

void device_connected(void)
{
    if (device.in_run) send_here(&device); /* a lost connection may have lost messages */
}

static int print_message(void)
{
    static unsigned char payload[1 << 20];
    Frame frame;
    if (!decode(payload, fread(payload, 1, sizeof payload, stdin), &frame)) {
        puts("not a message");
        return 1;
    }
    printf("%s %llu %llu %llu %llu %zu\n", frame.run, (unsigned long long)frame.device,
           (unsigned long long)frame.round, (unsigned long long)frame.version,
           (unsigned long long)frame.training, frame.count);
    return 0;
}

/* Read nanoseconds of a slot, then slots and when they began; print when the next slot and slot 100 begin. */
static int print_slots(void)
{
    Slots s = {0};
    long long slot, local;
    if (scanf("%lld", &local) != 1) return 1;
    s.slot_ns = local;
    while (scanf("%lld %lld", &slot, &local) == 2) {
        count_slots(&s, slot, local);
        printf("%lld %lld %lld\n", (long long)s.beacons, (long long)slot_begins(&s, slot + 1),
               (long long)slot_begins(&s, 100));
    }
    return 0;
}

bool is_name(const char *text)
{
    size_t length = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    return length >= 1 && length <= 64 && !text[length] && isalnum((unsigned char)text[0]);
}

int main(int count, char **arguments)
{
    Device *d = &device;
    unsigned char will[1024];
    char topic[TOPIC_ROOM], name[NAME_ROOM], boot_field[64];
    struct timespec now;
    if (count == 2 && !strcmp(arguments[1], "--decode")) return print_message();
    if (count == 2 && !strcmp(arguments[1], "--count")) return print_slots();
    if (!channel_arguments(count, arguments, name, &d->number) || !d->number || d->number > 1000000000u) {
        fprintf(stderr, "usage: %s %s\n", arguments[0], channel_usage);
        return 2;
    }
    clock_gettime(CLOCK_REALTIME, &now); /* tells this start of the device from others */
    snprintf(d->boot, sizeof d->boot, "%016llx",
             (unsigned long long)mixed((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec));
    snprintf(d->root, sizeof d->root, "slotwise/%s", name);
    Frame label = own_label(d);
    snprintf(boot_field, sizeof boot_field, ",\"boot\":\"%.31s\"", d->boot);
    size_t length = encode(will, sizeof will, &label, boot_field, NULL);
    snprintf(topic, sizeof topic, "%.255s/from/%llu/gone", d->root, (unsigned long long)d->number);

    int code = channel_open(name, d->number, topic, will, length);
    if (code) return code;
    while (!d->over) {
        channel_step();
        use_slots(d);
    }
    channel_close();
    if (d->excluded) fprintf(stderr, "excluded by the server at the end of the run\n");
    return d->excluded ? 3 : 0;
}
