// Objects compiled against glibc 2.34 or later call res_search by that name. Older ones, and newer ones that keep the
// old name, have it as __res_search.
int __res_search(const char *name, int class, int type, unsigned char *answer, int length);

int res_search(const char *name, int class, int type, unsigned char *answer, int length)
{
    return __res_search(name, class, type, answer, length);
}
