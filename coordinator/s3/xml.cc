#include "coordinator/s3/xml.h"

#include <expat.h>

#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/text/strings.h"

namespace muster::coordinator::s3 {
namespace {

using common::StrCat;

// What expat's callbacks fill. The first thing that is refused stops the parser.
struct Building {
  XML_Parser parser = nullptr;
  XmlElement root;
  std::vector<XmlElement*> open;  // from the root down
  size_t elements = 0;
  std::string refused;

  void Refuse(std::string why) {
    if (refused.empty()) refused = std::move(why);
    XML_StopParser(parser, XML_FALSE);
  }
};

void OnStart(void* argument, const XML_Char* name, const XML_Char**) {
  auto& building = *static_cast<Building*>(argument);
  if (!building.refused.empty()) return;
  if (building.open.size() >= kXmlDepthMax)
    return building.Refuse(StrCat("elements are nested deeper than ", kXmlDepthMax));
  if (++building.elements > kXmlElementsMax)
    return building.Refuse(StrCat("it has more than ", kXmlElementsMax, " elements"));
  XmlElement* element = &building.root;
  if (!building.open.empty()) element = &building.open.back()->children.emplace_back();
  std::string_view plain = name;
  plain.remove_prefix(plain.find(':') == std::string_view::npos ? 0 : plain.find(':') + 1);
  element->name = plain;
  building.open.push_back(element);
}

void OnEnd(void* argument, const XML_Char*) {
  auto& building = *static_cast<Building*>(argument);
  if (!building.open.empty()) building.open.pop_back();
}

void OnText(void* argument, const XML_Char* text, int size) {
  auto& building = *static_cast<Building*>(argument);
  if (!building.open.empty()) building.open.back()->text.append(text, static_cast<size_t>(size));
}

void OnDoctype(void* argument, const XML_Char*, const XML_Char*, const XML_Char*, int) {
  static_cast<Building*>(argument)->Refuse("it has a document type");
}

}  // namespace

const XmlElement* XmlElement::Child(std::string_view child) const {
  for (const XmlElement& element : children) {
    if (element.name == child) return &element;
  }
  return nullptr;
}

std::string_view XmlElement::TextOf(std::string_view child) const {
  const XmlElement* const element = Child(child);
  return element == nullptr ? std::string_view() : element->text;
}

absl::StatusOr<XmlElement> ParseXml(std::string_view text) {
  if (text.size() > kXmlBytesMax)
    return absl::InvalidArgumentError(StrCat("it is larger than ", kXmlBytesMax, " bytes"));
  const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser(
      XML_ParserCreate("UTF-8"), &XML_ParserFree);
  if (parser == nullptr) return absl::InternalError("expat makes no parser");
  Building building{.parser = parser.get()};
  XML_SetUserData(parser.get(), &building);
  XML_SetElementHandler(parser.get(), &OnStart, &OnEnd);
  XML_SetCharacterDataHandler(parser.get(), &OnText);
  XML_SetStartDoctypeDeclHandler(parser.get(), &OnDoctype);
  const XML_Status status =
      XML_Parse(parser.get(), text.data(), static_cast<int>(text.size()), XML_TRUE);
  if (!building.refused.empty()) return absl::InvalidArgumentError(building.refused);
  if (status != XML_STATUS_OK) {
    return absl::InvalidArgumentError(StrCat(XML_ErrorString(XML_GetErrorCode(parser.get())),
                                             " in line ", XML_GetCurrentLineNumber(parser.get())));
  }
  return std::move(building.root);
}

}  // namespace muster::coordinator::s3
