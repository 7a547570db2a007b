/* Sealed datagrams of docs/udp.md: ChaCha20-Poly1305 and HKDF-SHA256, from OpenSSL's libcrypto. */
#ifndef SLOTWISE_SEALING_H
#define SLOTWISE_SEALING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_BYTES 32
#define NONCE_BYTES 12
#define TAG_BYTES 16
#define RANDOM_BYTES 16
#define HEADER_BYTES 3                                  /* kind and device */
#define SEALED_BYTES (HEADER_BYTES + 8 + TAG_BYTES)     /* of a sealed datagram that are not its content */
#define LARGEST_DATAGRAM 1472
#define REPLAY_WINDOW 1024 /* datagrams that may overtake each other */

typedef struct {
    unsigned char key[KEY_BYTES];
    uint64_t counter;
} Sealer;

typedef struct {
    unsigned char key[KEY_BYTES];
    uint64_t next;                     /* the newest counter, plus 1 */
    uint64_t seen[REPLAY_WINDOW / 64]; /* a bit for each counter in the window, at its remainder */
} Opener;

/* A key of 32 bytes from the secret of a device; without a salt, 32 zeros are used. */
bool derive(const unsigned char *secret, const unsigned char *salt, size_t length, const char *purpose,
            unsigned char *key);
/* The tag of what is sent in clear. */
bool prove(const unsigned char *key, const unsigned char *nonce, const unsigned char *said, size_t length,
           unsigned char *tag);
bool is_proof(const unsigned char *key, const unsigned char *nonce, const unsigned char *said, size_t length,
              const unsigned char *tag);
/* Seal a datagram under the next counter; return its length, 0 after an error. */
size_t seal(Sealer *sealer, const unsigned char *header, const unsigned char *content, size_t length,
            unsigned char *datagram);
/* Open a datagram; false if it was not sealed by the peer, or has come before. */
bool open_sealed(Opener *opener, const unsigned char *datagram, size_t length, unsigned char *content,
                 size_t *content_length);
bool random_bytes(unsigned char *bytes, size_t length);

void put_number(unsigned char *bytes, uint64_t value, int count); /* little-endian */
uint64_t get_number(const unsigned char *bytes, int count);

#endif
