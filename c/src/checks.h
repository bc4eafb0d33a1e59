/* Checksums of packets and of the model image. */
#ifndef FLAME_CHECKS_H
#define FLAME_CHECKS_H
#include <stddef.h>
#include <stdint.h>

/* CRC-32 of zlib. */
uint32_t crc32_of(const uint8_t *bytes, size_t count);

/* CRC-16 of CCSDS: polynomial 0x1021, all ones at the start. */
uint16_t crc16_of(const uint8_t *bytes, size_t count);
#endif
