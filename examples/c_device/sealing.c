/* Sealed datagrams, see sealing.h. */
#include "sealing.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <string.h>

#define INFO "slotwise udp 1 "
#define LONGEST_PURPOSE 32

void put_number(unsigned char *bytes, uint64_t value, int count)
{
    for (int j = 0; j < count; j++) bytes[j] = (unsigned char)(value >> 8 * j);
}

uint64_t get_number(const unsigned char *bytes, int count)
{
    uint64_t value = 0;
    for (int j = count; j-- > 0;) value = value << 8 | bytes[j];
    return value;
}

bool random_bytes(unsigned char *bytes, size_t length)
{
    return RAND_bytes(bytes, (int)length) == 1;
}

bool derive(const unsigned char *secret, const unsigned char *salt, size_t length, const char *purpose,
            unsigned char *key)
{
    static const unsigned char zeros[KEY_BYTES];
    unsigned char extracted[KEY_BYTES], info[sizeof INFO + LONGEST_PURPOSE];
    size_t prefix = strlen(INFO), purposed = strlen(purpose);
    if (purposed > LONGEST_PURPOSE) return false;
    if (!HMAC(EVP_sha256(), length ? salt : zeros, length ? (int)length : KEY_BYTES, secret, KEY_BYTES, extracted, NULL))
        return false;
    memcpy(info, INFO, prefix);
    memcpy(info + prefix, purpose, purposed);
    info[prefix + purposed] = 1; /* the first block of HKDF, which is as long as a key */
    bool made = HMAC(EVP_sha256(), extracted, KEY_BYTES, info, prefix + purposed + 1, key, NULL);
    OPENSSL_cleanse(extracted, sizeof extracted);
    return made;
}

/* Encrypt (or decrypt) with additional data; the tag is written (or compared). */
static bool aead(bool encrypts, const unsigned char *key, const unsigned char *nonce, const unsigned char *said,
                 size_t said_length, const unsigned char *in, size_t length, unsigned char *out, unsigned char *tag)
{
    static EVP_CIPHER_CTX *context;
    int written;
    if (!context && !(context = EVP_CIPHER_CTX_new())) return false;
    if (!EVP_CipherInit_ex(context, EVP_chacha20_poly1305(), NULL, key, nonce, encrypts)) return false;
    if (!EVP_CipherUpdate(context, NULL, &written, said, (int)said_length)) return false;
    if (length && !EVP_CipherUpdate(context, out, &written, in, (int)length)) return false;
    if (!encrypts && !EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, TAG_BYTES, tag)) return false;
    if (EVP_CipherFinal_ex(context, out + length, &written) <= 0) return false;
    return !encrypts || EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES, tag);
}

bool prove(const unsigned char *key, const unsigned char *nonce, const unsigned char *said, size_t length,
           unsigned char *tag)
{
    unsigned char nothing[TAG_BYTES];
    return aead(true, key, nonce, said, length, NULL, 0, nothing, tag);
}

bool is_proof(const unsigned char *key, const unsigned char *nonce, const unsigned char *said, size_t length,
              const unsigned char *tag)
{
    unsigned char nothing[TAG_BYTES], copy[TAG_BYTES];
    memcpy(copy, tag, TAG_BYTES);
    return aead(false, key, nonce, said, length, NULL, 0, nothing, copy);
}

size_t seal(Sealer *sealer, const unsigned char *header, const unsigned char *content, size_t length,
            unsigned char *datagram)
{
    unsigned char nonce[NONCE_BYTES] = {0};
    size_t said = HEADER_BYTES + 8;
    if (length + SEALED_BYTES > LARGEST_DATAGRAM) return 0;
    memcpy(datagram, header, HEADER_BYTES);
    put_number(datagram + HEADER_BYTES, sealer->counter, 8);
    put_number(nonce + 4, sealer->counter++, 8);
    bool sealed = aead(true, sealer->key, nonce, datagram, said, content, length, datagram + said,
                       datagram + said + length);
    return sealed ? said + length + TAG_BYTES : 0;
}

/* Note a counter; false if it has come before, or is so old that nobody knows. */
static bool accept(Opener *opener, uint64_t counter)
{
    if (counter >= opener->next) {
        uint64_t new = counter - opener->next + 1;
        if (new >= REPLAY_WINDOW) memset(opener->seen, 0, sizeof opener->seen);
        else
            for (uint64_t one = opener->next; one <= counter; one++)
                opener->seen[one % REPLAY_WINDOW / 64] &= ~(UINT64_C(1) << one % 64);
        opener->next = counter + 1;
    } else if (opener->next - 1 - counter >= REPLAY_WINDOW) {
        return false;
    }
    uint64_t *word = &opener->seen[counter % REPLAY_WINDOW / 64], bit = UINT64_C(1) << counter % 64;
    if (*word & bit) return false;
    *word |= bit;
    return true;
}

bool open_sealed(Opener *opener, const unsigned char *datagram, size_t length, unsigned char *content,
                 size_t *content_length)
{
    unsigned char nonce[NONCE_BYTES] = {0}, tag[TAG_BYTES];
    size_t said = HEADER_BYTES + 8;
    if (length < SEALED_BYTES || length > LARGEST_DATAGRAM) return false;
    *content_length = length - SEALED_BYTES;
    memcpy(nonce + 4, datagram + HEADER_BYTES, 8);
    memcpy(tag, datagram + said + *content_length, TAG_BYTES);
    if (!aead(false, opener->key, nonce, datagram, said, datagram + said, *content_length, content, tag))
        return false;
    uint64_t counter = get_number(datagram + HEADER_BYTES, 8);
    return counter < UINT64_MAX && accept(opener, counter);
}
