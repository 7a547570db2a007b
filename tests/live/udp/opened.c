/* For tests of sealing.c: "key K", "open DATAGRAM", "seal CONTENT" in hexadecimal; prints what follows. */
#include <stdio.h>
#include <string.h>

#include "sealing.h"

static size_t bytes_of(const char *hex, unsigned char *bytes)
{
    size_t length = strlen(hex) / 2;
    for (size_t j = 0; j < length; j++) sscanf(hex + 2 * j, "%2hhx", &bytes[j]);
    return length;
}

int main(void)
{
    static const unsigned char header[HEADER_BYTES] = {0x53, 7, 0};
    static char verb[8], hex[4096];
    static Sealer sealer;
    static Opener opener;
    unsigned char in[2048], out[2048];
    while (scanf("%7s %4095s", verb, hex) == 2) {
        size_t length = bytes_of(hex, in);
        bool good = true;
        if (!strcmp(verb, "key")) {
            memcpy(sealer.key, in, KEY_BYTES);
            memcpy(opener.key, in, KEY_BYTES);
            length = 0;
        } else if (!strcmp(verb, "seal")) {
            length = seal(&sealer, header, in, length, out);
        } else {
            good = open_sealed(&opener, in, length, out, &length);
        }
        for (size_t j = 0; good && j < length; j++) printf("%02x", out[j]);
        puts(good ? "" : "refused");
    }
    return 0;
}
