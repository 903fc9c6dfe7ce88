package u32
