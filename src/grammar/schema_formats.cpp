#include <array>
#include <utility>

#include "grammar/schema_reader.h"

namespace rocmforge::grammar {
namespace {

#define RF_YEAR_LEAP "(\\d\\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
#define RF_DATE                                                                                               \
  "(\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))" \
  "|" RF_YEAR_LEAP "-02-29)"
#define RF_OFFSET "([zZ]|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
#define RF_TIME "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d+)?" RF_OFFSET
#define RF_LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define RF_OCTET "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define RF_IPV4 RF_OCTET "(\\." RF_OCTET "){3}"
#define RF_H16 "[0-9A-Fa-f]{1,4}"
#define RF_LS32 "(" RF_H16 ":" RF_H16 "|" RF_IPV4 ")"
#define RF_IPV6                                                                                                     \
  "((" RF_H16 ":){6}" RF_LS32 "|::(" RF_H16 ":){5}" RF_LS32 "|(" RF_H16 ")?::(" RF_H16 ":){4}" RF_LS32 "|((" RF_H16 \
  ":){0,1}" RF_H16 ")?::(" RF_H16 ":){3}" RF_LS32 "|((" RF_H16 ":){0,2}" RF_H16 ")?::(" RF_H16 ":){2}" RF_LS32      \
  "|((" RF_H16 ":){0,3}" RF_H16 ")?::" RF_H16 ":" RF_LS32 "|((" RF_H16 ":){0,4}" RF_H16 ")?::" RF_LS32 "|((" RF_H16 \
  ":){0,5}" RF_H16 ")?::" RF_H16 "|((" RF_H16 ":){0,6}" RF_H16 ")?::)"
#define RF_ATEXT "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
#define RF_PCHAR "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define RF_AUTHORITY                                               \
  "(([A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@)?(\\[" RF_IPV6 \
  "\\]|([A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(:\\d*)?"
#define RF_TAIL "(\\?(" RF_PCHAR "|[/?])*)?(#(" RF_PCHAR "|[/?])*)?"
#define RF_SEGMENTS "(/" RF_PCHAR "*)*"
#define RF_NC "([A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})"
#define RF_VARNAME "([A-Za-z0-9_]|%[0-9A-Fa-f]{2})(\\.?([A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*"
#define RF_VARSPEC RF_VARNAME "(\\*|:[1-9]\\d{0,3})?"

constexpr std::pair<std::string_view, const char*> kFormats[] = {
    {"date", RF_DATE},
    {"time", RF_TIME},
    {"date-time", RF_DATE "[tT]" RF_TIME},
    {"duration",
     "P(\\d+W|(\\d+Y(\\d+M(\\d+D)?)?|\\d+M(\\d+D)?|\\d+D)(T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S))?"
     "|T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S))"},
    {"email",
     RF_ATEXT "+(\\." RF_ATEXT "+)*@(" RF_LABEL "(\\." RF_LABEL ")*|\\[" RF_IPV4 "\\]|\\[IPv6:" RF_IPV6 "\\])"},
    {"hostname", "(?=.{1,253}$)" RF_LABEL "(\\." RF_LABEL ")*"},
    {"ipv4", RF_IPV4},
    {"ipv6", RF_IPV6},
    {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
    {"uri", "[A-Za-z][A-Za-z0-9+.-]*:(//" RF_AUTHORITY RF_SEGMENTS "|/(" RF_PCHAR "+" RF_SEGMENTS ")?|" RF_PCHAR
            "+" RF_SEGMENTS ")?" RF_TAIL},
    {"uri-reference", "([A-Za-z][A-Za-z0-9+.-]*:(//" RF_AUTHORITY RF_SEGMENTS "|/(" RF_PCHAR "+" RF_SEGMENTS
                      ")?|" RF_PCHAR "+" RF_SEGMENTS ")?|(//" RF_AUTHORITY RF_SEGMENTS "|/(" RF_PCHAR "+" RF_SEGMENTS
                      ")?|" RF_NC "+" RF_SEGMENTS ")?)" RF_TAIL},
    {"uri-template",
     "([^\\x00-\\x20\"'%<>\\\\^`{|}]|%[0-9A-Fa-f]{2}|\\{[+#./;?&=,!@|]?" RF_VARSPEC "(," RF_VARSPEC ")*\\})*"},
    {"json-pointer", "(/([^~/]|~[01])*)*"},
    {"relative-json-pointer", "(0|[1-9]\\d*)(#|(/([^~/]|~[01])*)*)"},
};

}  // namespace

const char* format_pattern(std::string_view name) {
  for (const auto& [known, pattern] : kFormats) {
    if (known == name) return pattern;
  }
  return nullptr;
}

}  // namespace rocmforge::grammar
