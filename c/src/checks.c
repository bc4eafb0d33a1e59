#include "checks.h"

uint32_t crc32_of(const uint8_t *bytes, size_t count) {
    uint32_t table[16], check = UINT32_MAX;
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 4; bit++) value = value & 1 ? 0xedb88320u ^ (value >> 1) : value >> 1;
        table[i] = value;
    }
    for (size_t i = 0; i < count; i++) {
        check = table[(check ^ bytes[i]) & 15] ^ (check >> 4);
        check = table[(check ^ (uint32_t)(bytes[i] >> 4)) & 15] ^ (check >> 4);
    }
    return ~check;
}

uint16_t crc16_of(const uint8_t *bytes, size_t count) {
    uint32_t check = 0xffff;
    for (size_t i = 0; i < count; i++) {
        check ^= (uint32_t)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++) check = (check & 0x8000 ? check << 1 ^ 0x1021 : check << 1) & 0xffff;
    }
    return (uint16_t)check;
}
