/* What the device needs of a transport: channel_mqtt.c and channel_udp.c are two, and a program has one of them. */
#ifndef SLOTWISE_CHANNEL_H
#define SLOTWISE_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEEPALIVE 10   /* seconds */
#define NAME_ROOM 65   /* bytes of a name of a channel, with the zero at its end */
#define TOPIC_ROOM 512 /* bytes of a topic that a device publishes */

extern const char *const channel_usage; /* the arguments of the program, in words */

/* Read the arguments of the program: name of the channel and number of the device; false if they are wrong. */
bool channel_arguments(int count, char **arguments, char *name, uint64_t *number);
/* Begin to connect, with a message that others get when the connection is lost; an exit code, 0 if all is well. */
int channel_open(const char *name, uint64_t number, const char *topic, const unsigned char *will, size_t length);
/* Send a message; one that is not acknowledged may be lost with the connection. */
void channel_publish(const char *topic, const unsigned char *payload, size_t length, bool acknowledged);
/* Wait for at most a second, and take what comes; connect again if the connection is lost. */
void channel_step(void);
void channel_close(void);
/* Whether beacons come over it, so that the device can take part in a run with slots; its clock, in nanoseconds; and
 * the time by that clock at which channel_step() should return at the latest. */
extern const bool channel_has_beacons;
int64_t channel_now(void);
void channel_wake_at(int64_t local);

/* The device, which the channel calls. */
void device_connected(void); /* also after a lost connection, which may have lost messages */
void device_receive(const char *topic, const unsigned char *payload, size_t length);
void device_beacon(const unsigned char *frame, size_t length, int64_t local); /* when its slot began */

/* Helpers of both, in slotwise_device.c. */
bool number_in(const char *text, uint64_t *value);
bool is_name(const char *text);
uint64_t mixed(uint64_t state);

#endif
